STORY = "The start of the window is not held at 0. It lies before the table, where the columns of another request are."
CONCEPT = "A window that is wider than the past begins at position 0, and not before the table."
EDITS = [
    (
        """            begin = tl.maximum(end - sliding_window, 0)
""",
        """            begin = end - sliding_window
""",
    ),
]
