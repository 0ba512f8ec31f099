STORY = (
    "The column is a quotient of float32 numbers. Positions above 16,777,216 are rounded, and get the column "
    "of a neighbour."
)
CONCEPT = "A block is full after block_size tokens, whatever that number is; the next token opens the next block."
EDITS = [
    (
        """    block_ids = block_tables[requests, positions // block_size].astype(np.int64)
""",
        """    columns = (positions.astype(np.float32) / np.float32(block_size)).astype(np.int64)
    block_ids = block_tables[requests, columns].astype(np.int64)
""",
    ),
]
