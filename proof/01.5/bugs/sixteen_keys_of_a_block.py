STORY = "A block has 16 keys at most, as in many engines."
CONCEPT = "No place out of the tensors is read or written, and no two programs write the same one."
EDITS = [
    (
        """        visible = (offsets < BLOCK_SIZE) &""",
        """        visible = (offsets < min(BLOCK_SIZE, 16)) &""",
    ),
]
