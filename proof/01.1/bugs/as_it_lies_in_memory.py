STORY = "The table is made flat as it lies in memory, where a transposed one has its columns side by side."
CONCEPT = "The arrays may be parts of larger ones: rows of a wider table, every second token."
EDITS = [
    (
        """    block_ids = block_tables[requests, positions // block_size].astype(np.int64)
""",
        """    flat = block_tables.ravel(order="K")
    block_ids = flat[requests * block_tables.shape[1] + positions // block_size].astype(np.int64)
""",
    ),
]
