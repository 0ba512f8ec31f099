STORY = (
    "popleft_n of all blocks takes a short cut that leaves their links as they were. A block that was taken looks as "
    "if it were in, and remove() of it passes."
)
CONCEPT = "A block that is not in the queue cannot be removed: ValueError, and nothing changes."
EDITS = [
    (
        """        taken = []
        block = self._head.next_free_block
""",
        """        taken = []
        block = self._head.next_free_block
        if num_blocks and num_blocks == self.num_free_blocks:
            while block is not self._tail:
                taken.append(block)
                block = block.next_free_block
            self._head.next_free_block = self._tail
            self._tail.prev_free_block = self._head
            self.num_free_blocks = 0
            return taken
""",
    ),
]
