STORY = "The block that answers for the content is forgotten, and not the one that is taken."
CONCEPT = "Of two blocks of equal content one is evicted, and the other one answers."
EDITS = [
    (
        """        for block in taken:
            self.uncache_block(block)
            block.ref_cnt = 1
        return taken
""",
        """        for block in taken:
            if block.block_hash is not None:
                self.uncache_block(self.get_cached_block(block.block_hash))
            block.ref_cnt = 1
        return taken
""",
    ),
]
