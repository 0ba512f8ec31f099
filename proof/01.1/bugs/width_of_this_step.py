STORY = (
    "A flat index uses the widest sequence of this step as the width of the table. The table is wider when a "
    "request has blocks for tokens to come."
)
CONCEPT = "The table is as wide as its longest request; columns behind a request's blocks mean nothing."
EDITS = [
    (
        """    block_ids = block_tables[requests, positions // block_size].astype(np.int64)
""",
        """    width = int(positions.max(initial=0)) // block_size + 1
    flat = requests * width + positions // block_size
    block_ids = block_tables.reshape(-1)[flat].astype(np.int64)
""",
    ),
]
