STORY = "Of a token 512 numbers are stored at most."
CONCEPT = "A token has ROW numbers, all heads of it, be they few or many."
EDITS = [
    (
        """        mask = numbers < ROW
        key = tl.load""",
        """        mask = numbers < min(ROW, 512)
        key = tl.load""",
    ),
]
