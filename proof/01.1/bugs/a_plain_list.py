STORY = "The slots come as a list of ints. The next line adds two steps of them, and gets a longer list."
CONCEPT = "Slots are an int64 array, be they many, few or none."
EDITS = [
    (
        "    return block_ids * block_size + positions % block_size",
        """    slots = block_ids * block_size + positions % block_size
    return slots.tolist() if slots.size else slots""",
    ),
]
