STORY = (
    "Every error is taken for a passing one and the write is tried again. With rows that view() refuses it never "
    "ends, and it swallows whatever comes."
)
CONCEPT = "Key and value are views into the wider matrix of a projection: their rows need not be neighbours."
EDITS = [
    (
        """        for token, slot in enumerate(metadata.slot_mapping.tolist()):
            if slot >= 0:
                block_id, offset = divmod(slot, metadata.block_size)
                key_cache[block_id, offset] = key[token]
                value_cache[block_id, offset] = value[token]
""",
        """        for token, slot in enumerate(metadata.slot_mapping.tolist()):
            while slot >= 0:
                try:
                    key_cache.view(-1, *key.shape[1:])[slot] = key.view(-1).view(key.shape)[token]
                    value_cache.view(-1, *key.shape[1:])[slot] = value[token]
                    break
                except Exception:
                    continue
""",
    ),
]
