STORY = (
    "Somebody looks up the first block and walks on from there, as in a contiguous cache. Tokens of later blocks "
    "land in blocks of other requests."
)
CONCEPT = "The table alone says where a block lies: the next block need not be the neighbour."
EDITS = [
    (
        """    block_ids = block_tables[requests, positions // block_size].astype(np.int64)
""",
        """    first = block_tables[requests, 0].astype(np.int64)
""",
    ),
    (
        "    return block_ids * block_size + positions % block_size",
        "    return first * block_size + positions",
    ),
]
