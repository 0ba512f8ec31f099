STORY = (
    "The cache was float16 once, and the conversion was left in when models moved to bfloat16. Large keys become "
    "infinite."
)
CONCEPT = "What is stored is what was computed, bit for bit, whatever the dtype."
EDITS = [
    (
        "key_cache[block_id, offset] = key[token]",
        "key_cache[block_id, offset] = key[token].half()",
    ),
    (
        "value_cache[block_id, offset] = value[token]",
        "value_cache[block_id, offset] = value[token].half()",
    ),
]
