STORY = (
    "The highest slot is asked for before anything is written, to see whether the cache is large enough. A batch "
    "of padding has none, and the step raises."
)
CONCEPT = "A batch may be nothing but padding: a recorded step runs with as many rows as it was recorded with."
EDITS = [
    (
        """        for token, slot in enumerate(metadata.slot_mapping.tolist()):
            if slot >= 0:
                block_id, offset = divmod(slot, metadata.block_size)
                key_cache[block_id, offset] = key[token]
                value_cache[block_id, offset] = value[token]
""",
        """        assert max(slot for slot in metadata.slot_mapping.tolist() if slot >= 0) < key_cache.flatten(0, 1).shape[0]
        for token, slot in enumerate(metadata.slot_mapping.tolist()):
            if slot >= 0:
                block_id, offset = divmod(slot, metadata.block_size)
                key_cache[block_id, offset] = key[token]
                value_cache[block_id, offset] = value[token]
""",
    ),
]
