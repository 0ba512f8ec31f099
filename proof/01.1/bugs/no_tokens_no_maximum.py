STORY = (
    "The longest position is checked against the width of the table first. A step without tokens has no longest one."
)
CONCEPT = "Slots are an int64 array, be they many, few or none."
EDITS = [
    (
        """    block_ids = block_tables[requests, positions // block_size].astype(np.int64)
""",
        """    if positions.max() >= block_tables.shape[1] * block_size:
        raise IndexError('a position behind the table')
    block_ids = block_tables[requests, positions // block_size].astype(np.int64)
""",
    ),
]
