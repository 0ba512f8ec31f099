STORY = "A block whose content another block answers for keeps its name when it is taken."
CONCEPT = "Of two blocks of equal content one is evicted, and the other one answers."
EDITS = [
    (
        """        for block in taken:
            self.uncache_block(block)
            block.ref_cnt = 1
        return taken
""",
        """        for block in taken:
            if self.get_cached_block(block.block_hash) is block:
                self.uncache_block(block)
            block.ref_cnt = 1
        return taken
""",
    ),
]
