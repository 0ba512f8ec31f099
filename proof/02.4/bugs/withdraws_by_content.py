STORY = "Names are withdrawn by content, and blocks of equal content that were written are forgotten, too."
CONCEPT = "A block that was written is found, also if another one of its content was only promised."
EDITS = [
    (
        """            for block in table[request.num_computed_tokens // self.block_size :]:
                self.block_pool.uncache_block(block)
""",
        """            for block in table[request.num_computed_tokens // self.block_size :]:
                if block.block_hash is not None:
                    self.block_pool.uncache_hash(block.block_hash)
""",
    ),
]
