STORY = "The number of blocks is rounded down. The row does not see the last block until it is full."
CONCEPT = "A row sees up to its own position, however full the last block is."
EDITS = [
    (
        """    for block in range(begin // BLOCK_SIZE, tl.cdiv(end, BLOCK_SIZE)):
""",
        """    for block in range(begin // BLOCK_SIZE, end // BLOCK_SIZE):
""",
    ),
]
