STORY = "popleft_n() is right, but append_n() asks the first of its blocks for its links before it walks them, which eats a generator's first."
CONCEPT = "Blocks may come from a generator, which can be walked once."
EDITS = [
    (
        "        for block in blocks:\n            last.next_free_block = block\n            block.prev_free_block = last\n            last = block\n            self.num_free_blocks += 1\n        last.next_free_block = self._tail\n",
        "        if next(iter(blocks), None) is None:\n            return\n        for block in blocks:\n            last.next_free_block = block\n            block.prev_free_block = last\n            last = block\n            self.num_free_blocks += 1\n        last.next_free_block = self._tail\n",
    )
]
