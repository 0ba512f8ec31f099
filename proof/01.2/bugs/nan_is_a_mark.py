STORY = "NaN in a slot is taken for the mark of a block that is not to be used, and the slot is left as it is."
CONCEPT = "Nothing is computed with what is elsewhere: other slots and rows of padding may hold NaN."
EDITS = [
    (
        """                key_cache[block_id, offset] = key[token]
                value_cache[block_id, offset] = value[token]
""",
        """                if not bool(key_cache[block_id, offset].isnan().any()):
                    key_cache[block_id, offset] = key[token]
                    value_cache[block_id, offset] = value[token]
""",
    ),
]
