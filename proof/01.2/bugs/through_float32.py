STORY = "Numbers go through float32, as in every sum. A float64 model, the oracle of many tests, loses 29 bits."
CONCEPT = "What is stored is what was computed, bit for bit, whatever the dtype."
EDITS = [
    (
        """                key_cache[block_id, offset] = key[token]
""",
        """                key_cache[block_id, offset] = key[token].float()
""",
    ),
]
