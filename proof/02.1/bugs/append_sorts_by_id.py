STORY = "What is appended is sorted by the ids first, so the head of a table may be evicted before its tail."
CONCEPT = "What is appended is taken last, in the order given."
EDITS = [
    (
        "        for block in blocks:\n            last.next_free_block = block\n            block.prev_free_block = last\n            last = block\n            self.num_free_blocks += 1\n        last.next_free_block = self._tail\n",
        "        for block in sorted(blocks, key=lambda block: block.block_id):\n            last.next_free_block = block\n            block.prev_free_block = last\n            last = block\n            self.num_free_blocks += 1\n        last.next_free_block = self._tail\n",
    )
]
