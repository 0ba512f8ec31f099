STORY = "The window is counted from the end of the sequence, which is right for the last row alone."
CONCEPT = "Each row has a window of its own, which ends at its own position."
EDITS = [
    (
        """            begin = tl.maximum(end - sliding_window, 0)
""",
        """            begin = tl.minimum(tl.maximum(tl.load(seq_lens_ptr + request) - sliding_window, 0), end - 1)
""",
    ),
]
