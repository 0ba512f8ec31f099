STORY = (
    "Every block is put before all others, one after the other. The order given is turned round, so the pool "
    "hands out the block that should have waited longest."
)
CONCEPT = "What is prepended is taken next, in the order given."
EDITS = [
    (
        """        for block in blocks:
            last.next_free_block = block
            block.prev_free_block = last
            last = block
            self.num_free_blocks += 1
        assert first""",
        """        for block in reversed(list(blocks)):
            last.next_free_block = block
            block.prev_free_block = last
            last = block
            self.num_free_blocks += 1
        assert first""",
    ),
]
