STORY = (
    "Blocks are taken from the front of the table as they are visited. The next layer, which gets the same list, "
    "has none."
)
CONCEPT = "Query, caches and table are read, not changed."
EDITS = [
    (
        "    for block in range(begin // block_size,",
        """    del block_table[-(-end // block_size):]
    for block in range(begin // block_size,""",
    ),
]
