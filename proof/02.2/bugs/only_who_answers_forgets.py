STORY = "A block whose content another block answers for keeps its name when it is taken."
CONCEPT = "Of two blocks of equal content one is evicted, and the other one answers."
EDITS = [
    (
        "        for block in taken:\n            self.uncache_block(block)\n            block.ref_cnt = 1\n        return taken\n",
        "        for block in taken:\n            if self.get_cached_block(block.block_hash) is block:\n                self.uncache_block(block)\n            block.ref_cnt = 1\n        return taken\n",
    )
]
