STORY = "A query walks 64 blocks at most."
CONCEPT = "The last block may be full or not: positions up to end - 1 count, and end does not."
EDITS = [
    (
        """-(-end // block_size))""",
        """min(-(-end // block_size), begin // block_size + 64))""",
    ),
]
