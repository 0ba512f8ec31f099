STORY = "A block has 16 keys at most, as in many engines."
CONCEPT = "Every place in sight is read, each of the output is written by one program, and nothing else is touched."
EDITS = [
    (
        """        visible = (offsets < BLOCK_SIZE) &""",
        """        visible = (offsets < min(BLOCK_SIZE, 16)) &""",
    ),
]
