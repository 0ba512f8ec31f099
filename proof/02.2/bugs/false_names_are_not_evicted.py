STORY = "Content is evicted only if its name is true, so a block with an empty name is found after it was taken."
CONCEPT = "A name may be any value but None: blocks named 0 and b'' are evicted like others."
EDITS = [
    (
        "        for block in taken:\n            self.uncache_block(block)\n            block.ref_cnt = 1\n        return taken\n",
        "        for block in taken:\n            if block.block_hash:\n                self.uncache_block(block)\n            block.ref_cnt = 1\n        return taken\n",
    )
]
