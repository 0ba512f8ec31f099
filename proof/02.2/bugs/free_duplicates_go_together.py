STORY = "When a block is taken whose content is in a second free block, both are forgotten."
CONCEPT = "After any calls in any order, each block is held or free, and found as long as it may be."
EDITS = [
    (
        """        for block in taken:
            self.uncache_block(block)
            block.ref_cnt = 1
        return taken
""",
        """        for block in taken:
            for other in self.blocks if block.block_hash is not None else ():
                if other is not block and other.ref_cnt == 0 and other.block_hash == block.block_hash:
                    self.uncache_block(other)
            self.uncache_block(block)
            block.ref_cnt = 1
        return taken
""",
    ),
]
