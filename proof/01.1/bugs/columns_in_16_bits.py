STORY = "The columns are counted in 16 bits, which are enough for 32,768 blocks."
CONCEPT = "Rows, columns and tokens are as many as the arrays hold."
EDITS = [
    (
        """    block_ids = block_tables[requests, positions // block_size].astype(np.int64)
""",
        """    block_ids = block_tables[requests, (positions // block_size).astype(np.int16)].astype(np.int64)
""",
    ),
]
