STORY = (
    "To free what nobody holds raises ValueError, which callers take for a full pool: the wrong account goes unseen."
)
CONCEPT = "Freed more often than held is an error that must be seen, wherever the block stands."
EDITS = [
    (
        """            assert block.ref_cnt > 0, f"{block} is freed more often than it is held"
""",
        """            if block.ref_cnt <= 0:
                raise ValueError(f"{block} is freed more often than it is held")
""",
    ),
]
