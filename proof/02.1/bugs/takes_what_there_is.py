STORY = (
    "popleft_n takes block after block and finds out at the end of the queue that there are too few. The "
    "caller gets an error, and the blocks that were taken are lost for good."
)
CONCEPT = "Too many asked for: ValueError, and not one block is taken."
EDITS = [
    (
        """        if num_blocks > self.num_free_blocks:
            raise ValueError(f"cannot take {num_blocks} blocks, {self.num_free_blocks} are free")
        taken = []
""",
        """        taken = []
""",
    ),
    (
        """            assert block is not None
            taken.append(block)
""",
        """            if block is self._tail:
                self._head.next_free_block, self._tail.prev_free_block = self._tail, self._head
                self.num_free_blocks = 0
                raise ValueError("too few blocks are free")
            taken.append(block)
""",
    ),
]
