STORY = (
    "popleft_n() clears the name and the count of a block, which are the pool's. The index then cannot forget the name."
)
CONCEPT = "What is taken are the very blocks that were put in, and all but the links is as it was."
EDITS = [
    (
        """            block.prev_free_block = block.next_free_block = None
            block = following
""",
        """            block.prev_free_block = block.next_free_block = block.block_hash = None
            block = following
""",
    ),
]
