STORY = (
    "-1 is used as an index, and in Python that is the last slot. Padding overwrites the last block (seen in "
    "vLLM #43810)."
)
CONCEPT = "Padding has no place in the cache: -1 is neither the last slot nor the first."
EDITS = [
    (
        """        for token, slot in enumerate(metadata.slot_mapping.tolist()):
            if slot >= 0:
                block_id, offset = divmod(slot, metadata.block_size)
                key_cache[block_id, offset] = key[token]
                value_cache[block_id, offset] = value[token]
""",
        """        slots = metadata.slot_mapping
        key_cache.flatten(0, 1)[slots] = key
        value_cache.flatten(0, 1)[slots] = value
""",
    ),
]
