STORY = (
    "Each request's positions are taken to be its first one and those behind it. Tokens that come in another order"
    " get each other's slots."
)
CONCEPT = "Whatever the batch, a slot follows from the token's own request and position."
EDITS = [
    (
        """    block_ids = block_tables[requests, positions // block_size].astype(np.int64)
""",
        """    positions = positions.copy()
    for request in np.unique(requests):
        mine = requests == request
        positions[mine] = positions[mine].min() + np.arange(mine.sum())
    block_ids = block_tables[requests, positions // block_size].astype(np.int64)
""",
    ),
]
