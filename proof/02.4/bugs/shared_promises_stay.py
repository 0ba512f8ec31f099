STORY = (
    "A name is not withdrawn while another request holds the block. That one waits for content that nobody "
    "writes, and a third finds it."
)
CONCEPT = "What was not written is not found, also while another request holds the block."
EDITS = [
    (
        """            for block in table[request.num_computed_tokens // self.block_size :]:
                self.block_pool.uncache_block(block)
""",
        """            for block in table[request.num_computed_tokens // self.block_size :]:
                if block.ref_cnt == 0:
                    self.block_pool.uncache_block(block)
""",
    ),
]
