STORY = (
    "Blocks are taken one at a time until the queue raises. Those that were taken before the error belong to "
    "nobody and never come back."
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
        """        taken = []
        for _ in range(num_blocks):
            block = self.free_queue.popleft()
            self.uncache_block(block)
            block.ref_cnt = 1
            taken.append(block)
        return taken
""",
    ),
]
