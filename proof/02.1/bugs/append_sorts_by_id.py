STORY = "What is appended is sorted by the ids first, so the head of a table may be evicted before its tail."
CONCEPT = "What is appended is taken last, in the order given."
EDITS = [
    (
        """        for block in blocks:
            last.next_free_block = block
            block.prev_free_block = last
            last = block
            self.num_free_blocks += 1
        last.next_free_block = self._tail
""",
        """        for block in sorted(blocks, key=lambda block: block.block_id):
            last.next_free_block = block
            block.prev_free_block = last
            last = block
            self.num_free_blocks += 1
        last.next_free_block = self._tail
""",
    ),
]
