STORY = "begin may become negative when the window is wider than the past. The loop begins before the table."
CONCEPT = "A window of w keeps the last w positions, the row's own among them."
EDITS = [
    (
        """            begin = tl.maximum(end - sliding_window, 0)
""",
        """            begin = end - sliding_window
            if begin < 0:
                begin = end - 1
""",
    ),
]
