STORY = (
    "Eviction goes by content, not by block, as with one block for each hash. A second block of the same "
    "content is lost with the first, though it was never touched."
)
CONCEPT = "Of two blocks of equal content one is evicted, and the other one answers."
EDITS = [
    (
        """            self.uncache_block(block)
""",
        """            if block.block_hash is not None:
                self.uncache_hash(block.block_hash)
""",
    ),
]
