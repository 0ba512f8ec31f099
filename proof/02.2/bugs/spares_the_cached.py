STORY = "Blocks without content are taken first, wherever they stand in the queue."
CONCEPT = "A fresh block is the front of the queue, whatever it holds, and no other block is evicted."
EDITS = [
    (
        """        taken = self.free_queue.popleft_n(num_blocks)
""",
        """        if num_blocks > self.num_free_blocks:
            raise ValueError("too few blocks are free")
        line = [self.blocks[block_id] for block_id in self.free_queue.block_ids()]
        taken = sorted(line, key=lambda block: block.block_hash is not None)[:num_blocks]
        for block in taken:
            self.free_queue.remove(block)
""",
    ),
]
