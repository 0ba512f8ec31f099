STORY = "The row of the batch is taken for the slot. It is right for the first prompt in an empty cache."
CONCEPT = "The slot says where a token goes; its place in the batch does not."
EDITS = [
    (
        "tl.store(key_cache_ptr + slot * ROW + numbers, key, mask=mask)",
        "tl.store(key_cache_ptr + token * ROW + numbers, key, mask=mask)",
    ),
    (
        "tl.store(value_cache_ptr + slot * ROW + numbers, value, mask=mask)",
        "tl.store(value_cache_ptr + token * ROW + numbers, value, mask=mask)",
    ),
]
