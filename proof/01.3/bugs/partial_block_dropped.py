STORY = "The number of blocks is rounded down. The last tokens, the query's own among them, are not seen."
CONCEPT = "The last block may be full or not: positions up to end - 1 count, and end does not."
EDITS = [
    (
        """    for block in range(begin // block_size, -(-end // block_size)):
""",
        """    for block in range(begin // block_size, max(end // block_size, begin // block_size + 1)):
""",
    ),
]
