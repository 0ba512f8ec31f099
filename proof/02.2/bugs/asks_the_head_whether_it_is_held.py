STORY = "Only the head of a table is looked at: a block further on that nobody holds gets the count -1."
CONCEPT = "Freed more often than held is an error that must be seen, wherever the block stands."
EDITS = [
    (
        """            assert block.ref_cnt > 0, f"{block} is freed more often than it is held"
""",
        """            assert table[0].ref_cnt > 0 or block is not table[-1], f"{block} is freed more often than it is held"
""",
    ),
]
