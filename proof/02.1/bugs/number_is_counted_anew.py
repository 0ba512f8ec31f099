STORY = "num_free_blocks is a property that walks the queue. Each admission reads it, with 100,000 free blocks."
CONCEPT = "Nobody walks the queue: a call looks at the blocks it moves and at their neighbours."
EDITS = [
    ("        self.num_free_blocks = 0\n        #", "        self._count = 0\n        #"),
    (
        "    def popleft_n(self, num_blocks: int)",
        "    @property\n    def num_free_blocks(self) -> int:\n        return len(self.block_ids())\n\n    def popleft_n(self, num_blocks: int)",
    ),
    ("        if num_blocks > self.num_free_blocks:", "        if num_blocks > self._count:"),
    ("        self.num_free_blocks -= num_blocks\n", "        self._count -= num_blocks\n"),
    ("        self.num_free_blocks -= 1\n", "        self._count -= 1\n"),
    (
        "        for block in blocks:\n            last.next_free_block = block\n            block.prev_free_block = last\n            last = block\n            self.num_free_blocks += 1\n        last.next_free_block = self._tail\n",
        "        for block in blocks:\n            last.next_free_block = block\n            block.prev_free_block = last\n            last = block\n            self._count += 1\n        last.next_free_block = self._tail\n",
    ),
    (
        "            last = block\n            self.num_free_blocks += 1\n        assert first is not None\n",
        "            last = block\n            self._count += 1\n        assert first is not None\n",
    ),
]
