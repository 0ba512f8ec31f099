STORY = (
    "A learner fills the list from behind, as from a stack. A block table begins with the block that was last "
    "in line, and two engines never agree on an address."
)
CONCEPT = "Fresh blocks come from the front of the queue, in its order."
EDITS = [
    (
        """        taken = self.free_queue.popleft_n(num_blocks)
        for block in taken:
            self.uncache_block(block)
            block.ref_cnt = 1
        return taken
""",
        """        taken = self.free_queue.popleft_n(num_blocks)
        for block in taken:
            self.uncache_block(block)
            block.ref_cnt = 1
        return taken[::-1]
""",
    ),
]
