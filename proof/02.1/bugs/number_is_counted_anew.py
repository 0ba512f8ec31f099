STORY = "num_free_blocks is a property that walks the queue. Each admission reads it, with 100,000 free blocks."
CONCEPT = "No call walks the queue: it looks at the blocks it moves and at their neighbours."
EDITS = [
    (
        """        self.num_free_blocks = 0
        self._head""",
        """        self._count = 0
        self._head""",
    ),
    (
        "    def popleft_n(self, num_blocks: int)",
        """    @property
    def num_free_blocks(self) -> int:
        return len(self.block_ids())

    def popleft_n(self, num_blocks: int)""",
    ),
    (
        "        if num_blocks > self.num_free_blocks:",
        "        if num_blocks > self._count:",
    ),
    (
        """        self.num_free_blocks -= num_blocks
""",
        """        self._count -= num_blocks
""",
    ),
    (
        """        self.num_free_blocks -= 1
""",
        """        self._count -= 1
""",
    ),
    (
        """        for block in blocks:
            last.next_free_block = block
            block.prev_free_block = last
            last = block
            self.num_free_blocks += 1
        last.next_free_block = self._tail
""",
        """        for block in blocks:
            last.next_free_block = block
            block.prev_free_block = last
            last = block
            self._count += 1
        last.next_free_block = self._tail
""",
    ),
    (
        """            last = block
            self.num_free_blocks += 1
        assert first is not None
""",
        """            last = block
            self._count += 1
        assert first is not None
""",
    ),
]
