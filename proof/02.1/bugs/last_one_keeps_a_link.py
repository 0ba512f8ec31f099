STORY = (
    "popleft() has a quick way for the last block, which leaves its links. remove() of that block passes and "
    "the number becomes -1."
)
CONCEPT = "A block that is not in the queue cannot be removed: ValueError, and nothing changes."
EDITS = [
    (
        """        return self.popleft_n(1)[0]
""",
        """        block = self._head.next_free_block
        if self.num_free_blocks == 1:
            self._head.next_free_block, self._tail.prev_free_block = self._tail, self._head
            self.num_free_blocks = 0
            return block
        return self.popleft_n(1)[0]
""",
    ),
]
