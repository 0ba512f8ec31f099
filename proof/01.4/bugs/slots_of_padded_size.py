STORY = (
    "A slot is taken to be as large as the padded range. Tokens of 6 numbers lie 8 apart, and the last one "
    "behind the cache."
)
CONCEPT = "A range is padded to a power of two; what it holds beyond ROW is neither loaded nor stored."
EDITS = [
    (
        "tl.store(key_cache_ptr + slot * ROW + numbers, key, mask=mask)",
        "tl.store(key_cache_ptr + slot * BLOCK + numbers, key, mask=mask)",
    ),
    (
        "tl.store(value_cache_ptr + slot * ROW + numbers, value, mask=mask)",
        "tl.store(value_cache_ptr + slot * BLOCK + numbers, value, mask=mask)",
    ),
]
