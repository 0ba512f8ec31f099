STORY = (
    "Slots are stored in the smallest type that holds them. A kernel that was compiled for int64 reads two of them"
    " as one."
)
CONCEPT = "Slots are an int64 array, be they many, few or none."
EDITS = [
    (
        "    return block_ids * block_size + positions % block_size",
        """    slots = block_ids * block_size + positions % block_size
    return slots.astype(np.int32) if slots.size and slots.max() < 2**31 else slots""",
    ),
]
