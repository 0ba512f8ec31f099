STORY = (
    "A block either loses its content or gets its count; the two were thought of as two cases. Every block "
    "that had content is handed out as held by nobody."
)
CONCEPT = "A fresh block is held once, whatever it was before."
EDITS = [
    (
        """            self.uncache_block(block)
            block.ref_cnt = 1
""",
        """            if block.block_hash is not None:
                self.uncache_block(block)
            else:
                block.ref_cnt = 1
""",
    ),
]
