STORY = "Blocks are handed out and nobody counts the holder. The first release finds a count of nothing."
CONCEPT = "A fresh block is held once, whatever it was before."
EDITS = [
    (
        """            block.ref_cnt = 1
""",
        """            block.ref_cnt = max(block.ref_cnt, 0)
""",
    ),
]
