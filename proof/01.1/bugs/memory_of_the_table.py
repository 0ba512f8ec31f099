STORY = (
    "The table is read as its memory lies there. A table that is a part of a wider one has other numbers between "
    "its rows."
)
CONCEPT = "The arrays may be parts of larger ones: rows of a wider table, every second token."
EDITS = [
    (
        """    block_ids = block_tables[requests, positions // block_size].astype(np.int64)
""",
        """    width = block_tables.shape[1]
    flat = np.lib.stride_tricks.as_strided(block_tables, (block_tables.size,), (block_tables.itemsize,))
    block_ids = flat[requests * width + positions // block_size].astype(np.int64)
""",
    ),
]
