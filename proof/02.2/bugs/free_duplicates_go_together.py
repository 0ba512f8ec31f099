STORY = "When a block is taken whose content is in a second free block, both are forgotten."
CONCEPT = "After any calls in any order, each block is held or free, and found as long as it may be."
EDITS = [
    (
        "        for block in taken:\n            self.uncache_block(block)\n            block.ref_cnt = 1\n        return taken\n",
        "        for block in taken:\n            for other in self.blocks if block.block_hash is not None else ():\n                if other is not block and other.ref_cnt == 0 and other.block_hash == block.block_hash:\n                    self.uncache_block(other)\n            self.uncache_block(block)\n            block.ref_cnt = 1\n        return taken\n",
    )
]
