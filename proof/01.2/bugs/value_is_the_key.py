STORY = "A line is copied and one word of it not changed. The cache of values holds keys."
CONCEPT = "The key of a row goes into the caller's key cache, its value into the caller's value cache."
EDITS = [
    (
        "value_cache[block_id, offset] = value[token]",
        "value_cache[block_id, offset] = key[token]",
    ),
]
