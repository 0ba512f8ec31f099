STORY = (
    "A block is published only if no other has its content. When that one is evicted, nobody finds the "
    "content that this one still has."
)
CONCEPT = "Each block is published, also if another block has the same content: it answers when that one is gone."
EDITS = [
    (
        """            self.block_pool.cache_block(table[i], hashes[i])
""",
        """            if self.block_pool.get_cached_block(hashes[i]) is None:
                self.block_pool.cache_block(table[i], hashes[i])
""",
    ),
]
