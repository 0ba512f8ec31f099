STORY = (
    "The pool's own table forgets the content, the block keeps its hash. When it is freed half full it waits "
    "at the back, like a block that is worth keeping."
)
CONCEPT = "A block that is taken again is not found under its old content."
EDITS = [
    (
        """            self.uncache_block(block)
""",
        """            self._cached.get(block.block_hash, {}).pop(block.block_id, None)
""",
    ),
]
