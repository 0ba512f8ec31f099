STORY = (
    "The neighbours are tied together, the block that left keeps its own links. Removing it a second time "
    "looks fine, and counts one block less than there is."
)
CONCEPT = "A block that is not in the queue cannot be removed: ValueError, and nothing changes."
EDITS = [
    (
        """        block.prev_free_block = block.next_free_block = None
        self.num_free_blocks -= 1""",
        "        self.num_free_blocks -= 1",
    ),
]
