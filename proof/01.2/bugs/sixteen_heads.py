STORY = "Only 16 KV heads are stored, as many as the largest model at hand has."
CONCEPT = "A slot holds all KV heads of a token, with all their numbers."
EDITS = [
    (
        """                value_cache[block_id, offset] = value[token]
""",
        """                value_cache[block_id, offset, :16] = value[token, :16]
""",
    ),
]
