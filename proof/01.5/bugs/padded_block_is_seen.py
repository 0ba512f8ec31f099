STORY = (
    "BLOCK_N is taken for the size of a block. With blocks of 3 a tile reaches into the next block in memory, "
    "whose first slot counts as position 3."
)
CONCEPT = "A row sees up to its own position, however full the last block is."
EDITS = [
    (
        """        visible = (offsets < BLOCK_SIZE) & (positions >= begin) & (positions < end)
""",
        """        visible = (positions >= begin) & (positions < end)
""",
    ),
]
