STORY = "append_n() counts the whole queue after every block that it puts in."
CONCEPT = "No call walks the queue: it looks at the blocks it moves and at their neighbours."
EDITS = [
    (
        """        last.next_free_block = self._tail
        self._tail.prev_free_block = last
""",
        """        last.next_free_block = self._tail
        self._tail.prev_free_block = last
        self.num_free_blocks = len(self.block_ids())
""",
    ),
]
