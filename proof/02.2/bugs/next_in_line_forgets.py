STORY = "The next block in line is evicted ahead of time, though nobody has taken it."
CONCEPT = "A fresh block is the front of the queue, whatever it holds, and no other block is evicted."
EDITS = [
    (
        """        for block in taken:
            self.uncache_block(block)
            block.ref_cnt = 1
        return taken
""",
        """        for block in taken:
            self.uncache_block(block)
            block.ref_cnt = 1
        if self.num_free_blocks:
            self.uncache_block(self.blocks[self.free_queue.block_ids()[0]])
        return taken
""",
    ),
]
