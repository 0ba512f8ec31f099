STORY = "A line is copied and one word of it not changed. The cache of values holds keys."
CONCEPT = "A decode is a batch of one row, and goes to one slot."
EDITS = [
    (
        "value_cache[block_id, offset] = value[token]",
        "value_cache[block_id, offset] = key[token]",
    ),
]
