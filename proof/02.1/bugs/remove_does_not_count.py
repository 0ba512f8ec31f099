STORY = (
    "Somebody unlinks a block and believes the length follows by itself. The pool now reports more free blocks "
    "than it has, and a request is admitted that cannot be served."
)
CONCEPT = "The number of free blocks is right after every call."
EDITS = [
    (
        """        block.prev_free_block = block.next_free_block = None
        self.num_free_blocks -= 1""",
        "        block.prev_free_block = block.next_free_block = None",
    ),
]
