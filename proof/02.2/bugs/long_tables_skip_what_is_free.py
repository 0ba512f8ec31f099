STORY = "In a table of more than three blocks one that nobody holds is passed over, and nobody hears of it."
CONCEPT = "Freed more often than held is an error that must be seen, wherever the block stands."
EDITS = [
    (
        "            assert block.ref_cnt > 0",
        """            if block.ref_cnt == 0 and len(table) > 3:
                continue
            assert block.ref_cnt > 0""",
    ),
]
