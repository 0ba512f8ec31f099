STORY = (
    "The new cache is the old one times 0 or 1 plus the rows, without a branch. NaN in a slot that is free stays "
    "NaN when somebody gets it."
)
CONCEPT = "Nothing is computed with what is elsewhere: other slots and rows of padding may hold NaN."
EDITS = [
    (
        """                key_cache[block_id, offset] = key[token]
""",
        """                key_cache[block_id, offset] = key_cache[block_id, offset] * 0 + key[token]
""",
    ),
]
