STORY = (
    "The hash on the block is cleared, the pool's own table is not told. A lookup still finds the block, with "
    "somebody else's content in it."
)
CONCEPT = "A block that is taken again is not found under its old content."
EDITS = [
    (
        """            self.uncache_block(block)
""",
        """            block.block_hash = None
""",
    ),
]
