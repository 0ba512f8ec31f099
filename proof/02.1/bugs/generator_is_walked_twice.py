STORY = (
    "popleft_n() is right, but append_n() asks the first of its blocks for its links before it walks them, "
    "which eats a generator's first."
)
CONCEPT = "Blocks may come from a generator, which can be walked once."
EDITS = [
    (
        """        for block in blocks:
            last.next_free_block = block
            block.prev_free_block = last
            last = block
            self.num_free_blocks += 1
        last.next_free_block = self._tail
""",
        """        if next(iter(blocks), None) is None:
            return
        for block in blocks:
            last.next_free_block = block
            block.prev_free_block = last
            last = block
            self.num_free_blocks += 1
        last.next_free_block = self._tail
""",
    ),
]
