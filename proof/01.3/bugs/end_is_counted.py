STORY = "end is taken as the last position. A token sees the one that comes after it."
CONCEPT = "The last block may be full or not: positions up to end - 1 count, and end does not."
EDITS = [
    (
        """        tokens = slice(max(begin - block_start, 0), min(end - block_start, block_size))
""",
        """        tokens = slice(max(begin - block_start, 0), min(end - block_start + 1, block_size))
""",
    ),
]
