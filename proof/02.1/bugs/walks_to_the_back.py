STORY = (
    "A singly linked list has no way to its back, so append walks there from the front. With a hundred "
    "thousand free blocks every finished request waits for the walk."
)
CONCEPT = "No call walks the queue: it looks at the blocks it moves and at their neighbours."
EDITS = [
    (
        """        last = self._tail.prev_free_block
        assert last is not None
""",
        """        last = self._head
        while last.next_free_block is not self._tail:
            last = last.next_free_block
""",
    ),
]
