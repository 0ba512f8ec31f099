STORY = (
    "Written for a model with one KV head, and torch broadcasts it to all of them. Every head gets the keys of "
    "the first."
)
CONCEPT = "A slot holds all KV heads of a token, with all their numbers."
EDITS = [
    (
        "key_cache[block_id, offset] = key[token]",
        "key_cache[block_id, offset] = key[token, 0]",
    ),
    (
        "value_cache[block_id, offset] = value[token]",
        "value_cache[block_id, offset] = value[token, 0]",
    ),
]
