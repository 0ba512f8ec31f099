STORY = "The result is a new tensor, bound to the name of the parameter. The caller's cache stays as it was."
CONCEPT = "The key of a row goes into the caller's key cache, its value into the caller's value cache."
EDITS = [
    (
        """        for token, slot in enumerate(metadata.slot_mapping.tolist()):
            if slot >= 0:
                block_id, offset = divmod(slot, metadata.block_size)
                key_cache[block_id, offset] = key[token]
                value_cache[block_id, offset] = value[token]
""",
        """        key_cache, value_cache = key_cache.clone(), value_cache.clone()
        for token, slot in enumerate(metadata.slot_mapping.tolist()):
            if slot >= 0:
                block_id, offset = divmod(slot, metadata.block_size)
                key_cache[block_id, offset] = key[token]
                value_cache[block_id, offset] = value[token]
""",
    ),
]
