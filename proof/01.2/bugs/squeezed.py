STORY = (
    "A learner squeezes away what looks like an empty dimension. A batch of one row loses its rows, and a decode "
    "stores one number everywhere."
)
CONCEPT = "A decode is a batch of one row, and goes to one slot."
EDITS = [
    (
        "key_cache[block_id, offset] = key[token]",
        "key_cache[block_id, offset] = key.squeeze()[token]",
    ),
    (
        "value_cache[block_id, offset] = value[token]",
        "value_cache[block_id, offset] = value.squeeze()[token]",
    ),
]
