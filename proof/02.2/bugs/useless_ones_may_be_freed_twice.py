STORY = "A block without content that nobody holds is passed over in silence, so a table that is freed twice is never noticed."
CONCEPT = "Freed more often than held is an error that must be seen, wherever the block stands."
EDITS = [
    (
        """            assert block.ref_cnt > 0, f"{block} is freed more often than it is held"
""",
        """            if block.ref_cnt == 0 and block.block_hash is None:
                continue
            assert block.ref_cnt > 0, f"{block} is freed more often than it is held"
""",
    ),
]
