STORY = "The rows of a batch are counted in a byte: request 300 reads the row of request 44."
CONCEPT = "Rows, columns and tokens are as many as the arrays hold."
EDITS = [
    (
        """    block_ids = block_tables[requests, positions // block_size].astype(np.int64)
""",
        """    block_ids = block_tables[requests.astype(np.uint8), positions // block_size].astype(np.int64)
""",
    ),
]
