STORY = "The positions are read as their memory lies there. Every second one is the neighbour's."
CONCEPT = "The arrays may be parts of larger ones: rows of a wider table, every second token."
EDITS = [
    (
        """    block_ids = block_tables[requests, positions // block_size].astype(np.int64)
""",
        """    positions = np.lib.stride_tricks.as_strided(positions, positions.shape, (positions.itemsize,))
    block_ids = block_tables[requests, positions // block_size].astype(np.int64)
""",
    ),
]
