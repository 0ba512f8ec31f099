STORY = "The mask says at most where it should say below. One number more is stored, the first of the next slot."
CONCEPT = "A range is padded to a power of two; what it holds beyond ROW is neither loaded nor stored."
EDITS = [
    (
        """        mask = numbers < ROW
""",
        """        mask = numbers <= ROW
""",
    ),
]
