STORY = "A promise is withdrawn unless two others still hold the block: they are thought to write it."
CONCEPT = "What was not written is not found, also while another request holds the block."
EDITS = [
    (
        "                self.block_pool.uncache_block(block)",
        "                if block.ref_cnt < 2:\n                    self.block_pool.uncache_block(block)",
    )
]
