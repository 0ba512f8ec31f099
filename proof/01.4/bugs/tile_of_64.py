STORY = "The range has 64 numbers, whatever BLOCK says. A model with 8 heads of 128 loses most of its keys."
CONCEPT = "A token has ROW numbers, all heads of it, be they few or many."
EDITS = [
    (
        "tl.arange(0, BLOCK)",
        "tl.arange(0, 64)",
    ),
]
