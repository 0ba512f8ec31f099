STORY = "A head has 128 numbers at most, so no more are copied."
CONCEPT = "A slot holds all KV heads of a token, with all their numbers."
EDITS = [
    (
        """                key_cache[block_id, offset] = key[token]
""",
        """                key_cache[block_id, offset, :, :128] = key[token, :, :128]
""",
    ),
]
