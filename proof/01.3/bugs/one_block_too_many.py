STORY = (
    "A block is added without asking whether the last one is full. At every block edge the table is read past its end."
)
CONCEPT = "The last block may be full or not: positions up to end - 1 count, and end does not."
EDITS = [
    (
        """    for block in range(begin // block_size, -(-end // block_size)):
""",
        """    for block in range(begin // block_size, end // block_size + 1):
""",
    ),
]
