STORY = "The last slot of the cache is kept free, as a place for rubbish. It belongs to a block like any other."
CONCEPT = "Whatever the batch, each row stands in its slot, and nothing else has changed."
EDITS = [
    (
        """            if slot >= 0:
""",
        """            if 0 <= slot < key_cache.shape[0] * metadata.block_size - 1:
""",
    ),
]
