STORY = (
    "remove() looks for the block from the front, as in a list of values. A prefix hit far back in a large "
    "pool then costs more than computing the prefix again."
)
CONCEPT = "No call walks the queue: it looks at the blocks it moves and at their neighbours."
EDITS = [
    (
        """        before, after = block.prev_free_block, block.next_free_block
        if before is None or after is None:
            raise ValueError(f"{block} is not free")
""",
        """        before = self._head
        while before.next_free_block is not block:
            before = before.next_free_block
            if before is self._tail:
                raise ValueError(f"{block} is not free")
        after = block.next_free_block
""",
    ),
]
