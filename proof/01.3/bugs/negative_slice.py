STORY = (
    "begin - block_start is negative in every block but the first, and a negative index counts from the end. "
    "Later blocks lose their first keys."
)
CONCEPT = "A window begins anywhere, in the middle of a block or behind whole blocks."
EDITS = [
    (
        """        tokens = slice(max(begin - block_start, 0), min(end - block_start, block_size))
""",
        """        tokens = slice(begin - block_start, min(end - block_start, block_size))
""",
    ),
]
