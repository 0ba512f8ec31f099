STORY = (
    "A learner divides by shifting and searches for the shift that gives the block size. With blocks of 3 there "
    "is none, and the search goes on for ever."
)
CONCEPT = "A block is full after block_size tokens, whatever that number is; the next token opens the next block."
EDITS = [
    (
        """    block_ids = block_tables[requests, positions // block_size].astype(np.int64)
""",
        """    shift = 0
    while 1 << shift != block_size:
        shift += 1
    block_ids = block_tables[requests, positions >> shift].astype(np.int64)
""",
    ),
]
