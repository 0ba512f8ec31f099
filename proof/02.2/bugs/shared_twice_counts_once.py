STORY = "A block that two tables hold, and that both let go of in turn, is freed by the first."
CONCEPT = "A shared block is free when the last holder lets go, not before."
EDITS = [
    (
        """            block.ref_cnt -= 1
""",
        """            block.ref_cnt = max(block.ref_cnt - 1, 0) if block.ref_cnt != 2 else 0
""",
    ),
]
