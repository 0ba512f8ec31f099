STORY = "The range has a fixed length that was enough for the first tests. Larger tokens lose their last heads."
CONCEPT = "A token has ROW numbers, all heads of it, be they few or many."
EDITS = [
    (
        """        numbers = tl.arange(0, BLOCK)
""",
        """        numbers = tl.arange(0, 8)
""",
    ),
]
