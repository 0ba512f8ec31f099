STORY = (
    "The column is rounded up, since that is how blocks are counted for a length. Only the first token of a "
    "block finds the right one."
)
CONCEPT = "A block is full after block_size tokens, whatever that number is; the next token opens the next block."
EDITS = [
    (
        "block_tables[requests, positions // block_size]",
        "block_tables[requests, np.minimum(-(-positions // block_size), block_tables.shape[1] - 1)]",
    ),
]
