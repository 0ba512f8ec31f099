STORY = (
    "The loop begins with the right block, and nothing cuts it at the first position. The window grows to the "
    "edge of a block."
)
CONCEPT = "A window of w keeps the last w positions, the row's own among them."
EDITS = [
    (
        """        visible = (offsets < BLOCK_SIZE) & (positions >= begin) & (positions < end)
""",
        """        visible = (offsets < BLOCK_SIZE) & (positions < end)
""",
    ),
]
