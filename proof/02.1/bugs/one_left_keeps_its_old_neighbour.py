STORY = (
    "When one block is left after popleft_n(), it keeps the block before it as its neighbour. If it is "
    "removed, the front end still points to it."
)
CONCEPT = "After any calls in any order, the queue is what they made of it."
EDITS = [
    (
        """        block.prev_free_block = self._head
""",
        """        if self.num_free_blocks - num_blocks != 1:
            block.prev_free_block = self._head
""",
    ),
]
