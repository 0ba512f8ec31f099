STORY = (
    "Values that are not finite are replaced, so that one bad layer cannot spoil the cache. The NaN that would "
    "have shown the bad layer is gone."
)
CONCEPT = "A row is copied, not judged: NaN, infinities and -0.0 arrive as they are, and so does a row of zeros."
EDITS = [
    (
        """                key_cache[block_id, offset] = key[token]
""",
        """                key_cache[block_id, offset] = key[token].nan_to_num()
""",
    ),
]
