STORY = (
    "Each row of a request sees one position at least, since each token sees itself. A padded row reads a key of "
    "the first block."
)
CONCEPT = "A request may have more rows than tokens: its first rows see nothing, and become 0."
EDITS = [
    (
        """        if sliding_window > 0:
""",
        """        if tl.load(seq_lens_ptr + request) > 0:
            end = tl.maximum(end, 1)
        if sliding_window > 0:
""",
    ),
]
