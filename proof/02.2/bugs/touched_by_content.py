STORY = "A hit is gathered by content before it is touched, and of two blocks of equal content one is not held."
CONCEPT = "Two blocks of equal content may be touched at once: each is held once more."
EDITS = [
    (
        """        for block in blocks:
            if block.ref_cnt == 0:
""",
        """        for block in {block.block_hash: block for block in blocks}.values():
            if block.ref_cnt == 0:
""",
    ),
]
