STORY = "The window begins with a whole block. Up to block_size - 1 positions too many are seen."
CONCEPT = "A window begins anywhere, in the middle of a block or behind whole blocks."
EDITS = [
    (
        """        tokens = slice(max(begin - block_start, 0), min(end - block_start, block_size))
""",
        """        tokens = slice(0, min(end - block_start, block_size))
""",
    ),
]
