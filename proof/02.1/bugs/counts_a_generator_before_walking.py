STORY = (
    "The number is taken with a walk of its own before the loop. A generator is empty by then: the blocks are "
    "counted and never arrive."
)
CONCEPT = "Blocks may come from a generator, which can be walked once."
EDITS = [
    (
        """        last = self._tail.prev_free_block
        assert last is not None
        for block in blocks:
            last.next_free_block = block
            block.prev_free_block = last
            last = block
            self.num_free_blocks += 1
""",
        """        last = self._tail.prev_free_block
        assert last is not None
        self.num_free_blocks += sum(1 for _ in blocks)
        for block in blocks:
            last.next_free_block = block
            block.prev_free_block = last
            last = block
""",
    ),
]
