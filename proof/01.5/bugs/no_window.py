STORY = "The window is ignored. In a long text every token counts, and the answer of the model drifts."
CONCEPT = "A window of w keeps the last w positions, the row's own among them."
EDITS = [
    (
        """            begin = tl.maximum(end - sliding_window, 0)
""",
        """            begin = 0
""",
    ),
]
