STORY = "Content is evicted only if its name is true, so a block with an empty name is found after it was taken."
CONCEPT = "A name may be any value but None: blocks named 0, b'' and False are evicted like others."
EDITS = [
    (
        """        for block in taken:
            self.uncache_block(block)
            block.ref_cnt = 1
        return taken
""",
        """        for block in taken:
            if block.block_hash:
                self.uncache_block(block)
            block.ref_cnt = 1
        return taken
""",
    ),
]
