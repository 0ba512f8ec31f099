STORY = (
    "The token's place in the batch is taken for the number of its request. It works for a batch of decodes, "
    "where both are the same."
)
CONCEPT = "Each token looks in the table of its own request."
EDITS = [
    (
        "block_tables[requests, positions // block_size]",
        "block_tables[np.minimum(np.arange(len(requests)), len(block_tables) - 1), positions // block_size]",
    ),
]
