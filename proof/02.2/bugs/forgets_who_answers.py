STORY = "The block that answers for the content is forgotten, and not the one that is taken."
CONCEPT = "Of two blocks of equal content one is evicted, and the other one answers."
EDITS = [
    (
        "        for block in taken:\n            self.uncache_block(block)\n            block.ref_cnt = 1\n        return taken\n",
        "        for block in taken:\n            if block.block_hash is not None:\n                self.uncache_block(self.get_cached_block(block.block_hash))\n            block.ref_cnt = 1\n        return taken\n",
    )
]
