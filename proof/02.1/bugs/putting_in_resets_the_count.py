STORY = "append_n() sets ref_cnt to 0, as if the queue knew who holds a block."
CONCEPT = "What is taken are the very blocks that were put in, and all but the links is as it was."
EDITS = [
    (
        """        last.next_free_block = self._tail
        self._tail.prev_free_block = last
""",
        """        last.next_free_block = self._tail
        self._tail.prev_free_block = last
        if last.block_id >= 0:
            last.ref_cnt = 0
""",
    ),
]
