STORY = "No slot is negative, so uint32 counts twice as far as int32. It wraps around at 4,294,967,296."
CONCEPT = "A large cache has more slots than an int32 can count, so slots are int64."
EDITS = [
    (
        "    return block_ids * block_size + positions % block_size",
        "    return (block_ids * block_size + positions % block_size).astype(np.uint32).astype(np.int64)",
    ),
]
