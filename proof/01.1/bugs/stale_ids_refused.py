STORY = (
    "A table with a negative id is refused, as a mistake of the caller. Columns that no token needs may hold anything."
)
CONCEPT = "The table is as wide as its longest request; columns behind a request's blocks mean nothing."
EDITS = [
    (
        """    block_ids = block_tables[requests, positions // block_size].astype(np.int64)
""",
        """    if (block_tables < 0).any():
        raise ValueError('a negative block id')
    block_ids = block_tables[requests, positions // block_size].astype(np.int64)
""",
    ),
]
