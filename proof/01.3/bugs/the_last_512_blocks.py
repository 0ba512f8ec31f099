STORY = "The walk begins 512 blocks before the end, as a longer past was not foreseen."
CONCEPT = "The last block may be full or not: positions up to end - 1 count, and end does not."
EDITS = [
    (
        """range(begin // block_size, """,
        """range(max(begin // block_size, (end - 1) // block_size - 511), """,
    ),
]
