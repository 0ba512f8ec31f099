STORY = "The slot is cleared and the row added to it. -0.0 becomes 0.0, so the bits are others."
CONCEPT = "A row is copied, not judged: NaN, infinities and -0.0 arrive as they are, and so does a row of zeros."
EDITS = [
    (
        """                key_cache[block_id, offset] = key[token]
""",
        """                key_cache[block_id, offset] = 0
                key_cache[block_id, offset] += key[token]
""",
    ),
]
