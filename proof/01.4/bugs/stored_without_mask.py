STORY = "The loads are masked and the stores are not. The padding of the range overwrites the slot behind."
CONCEPT = "A range is padded to a power of two; what it holds beyond ROW is neither loaded nor stored."
EDITS = [
    (
        "tl.store(key_cache_ptr + slot * ROW + numbers, key, mask=mask)",
        "tl.store(key_cache_ptr + slot * ROW + numbers, key)",
    ),
    (
        "tl.store(value_cache_ptr + slot * ROW + numbers, value, mask=mask)",
        "tl.store(value_cache_ptr + slot * ROW + numbers, value)",
    ),
]
