STORY = "The row itself is not counted as part of the window. One position too many is seen."
CONCEPT = "A window of w keeps the last w positions, the row's own among them."
EDITS = [
    (
        """            begin = tl.maximum(end - sliding_window, 0)
""",
        """            begin = tl.maximum(end - sliding_window - 1, 0)
""",
    ),
]
