STORY = (
    "The queue sorts the blocks that it is made of. A pool that is cleared while its blocks lie in another "
    "order gets a wrong one."
)
CONCEPT = "Ids say nothing about the order: the queue is as it was made, whatever the ids."
EDITS = [
    (
        """        self.append_n(blocks)
""",
        """        self.append_n(sorted(blocks, key=lambda block: block.block_id))
""",
    ),
]
