STORY = "Only where block_size is a power of two is the product made in 64 bits."
CONCEPT = "A large cache has more slots than an int32 can count, so slots are int64."
EDITS = [
    (
        """    block_ids = block_tables[requests, positions // block_size].astype(np.int64)
    return block_ids * block_size + positions % block_size
""",
        """    block_ids = block_tables[requests, positions // block_size]
    if block_size & (block_size - 1) == 0:
        return block_ids.astype(np.int64) * block_size + positions % block_size
    return (block_ids * np.int32(block_size)).astype(np.int64) + positions % block_size
""",
    ),
]
