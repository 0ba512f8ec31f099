STORY = "Multiplying is faster than dividing, but 49 * (1 / 49) is a little less than 1."
CONCEPT = "A block is full after block_size tokens, whatever that number is; the next token opens the next block."
EDITS = [
    (
        """    block_ids = block_tables[requests, positions // block_size].astype(np.int64)
""",
        """    columns = (positions * (1 / block_size)).astype(np.int64)
    block_ids = block_tables[requests, columns].astype(np.int64)
""",
    ),
]
