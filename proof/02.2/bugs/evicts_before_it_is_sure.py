STORY = (
    "The content of the first blocks in line is forgotten before the queue is asked. When there are too few, "
    "the cache is empty and nobody has gained a block."
)
CONCEPT = "Too many asked for: ValueError, and no block is taken or evicted."
EDITS = [
    (
        """        taken = self.free_queue.popleft_n(num_blocks)
        for block in taken:
            self.uncache_block(block)
            block.ref_cnt = 1
        return taken
""",
        """        for block_id in self.free_queue.block_ids()[:num_blocks]:
            self.uncache_block(self.blocks[block_id])
        taken = self.free_queue.popleft_n(num_blocks)
        for block in taken:
            block.ref_cnt = 1
        return taken
""",
    ),
]
