STORY = "The last block is read to its end. Slots that hold another request's old keys take part."
CONCEPT = "A row sees up to its own position, however full the last block is."
EDITS = [
    (
        """        visible = (offsets < BLOCK_SIZE) & (positions >= begin) & (positions < end)
""",
        """        visible = (offsets < BLOCK_SIZE) & (positions >= begin)
""",
    ),
]
