STORY = "begin is never used, since most models have no window. The query sees all of its past."
CONCEPT = "A window begins anywhere, in the middle of a block or behind whole blocks."
EDITS = [
    (
        """    for block in range(begin // block_size, -(-end // block_size)):
""",
        """    for block in range(-(-end // block_size)):
""",
    ),
    (
        """        tokens = slice(max(begin - block_start, 0), min(end - block_start, block_size))
""",
        """        tokens = slice(0, min(end - block_start, block_size))
""",
    ),
]
