STORY = (
    "Columns that no token needs are set to 0, so that a wrong lookup would hit the null block. The next chunk "
    "finds its blocks gone."
)
CONCEPT = "The caller goes on using what it passed: nothing is changed in place."
EDITS = [
    (
        """    block_ids = block_tables[requests, positions // block_size].astype(np.int64)
""",
        """    block_ids = block_tables[requests, positions // block_size].astype(np.int64)
    used = np.zeros(block_tables.shape, bool)
    used[requests, positions // block_size] = True
    block_tables[~used] = 0
""",
    ),
]
