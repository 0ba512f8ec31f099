STORY = "The mask is forgotten in one of four lines. The cache of values is damaged behind every token."
CONCEPT = "A range is padded to a power of two; what it holds beyond ROW is neither loaded nor stored."
EDITS = [
    (
        "tl.store(value_cache_ptr + slot * ROW + numbers, value, mask=mask)",
        "tl.store(value_cache_ptr + slot * ROW + numbers, value)",
    ),
]
