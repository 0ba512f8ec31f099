STORY = (
    "The rows are copied with one slice from the first slot on, as in a contiguous cache. It is fast, and right "
    "until a request gets a second block."
)
CONCEPT = "The rows of a batch lie side by side, their slots do not: each row goes where its own slot says."
EDITS = [
    (
        """        for token, slot in enumerate(metadata.slot_mapping.tolist()):
            if slot >= 0:
                block_id, offset = divmod(slot, metadata.block_size)
                key_cache[block_id, offset] = key[token]
                value_cache[block_id, offset] = value[token]
""",
        """        slots = metadata.slot_mapping
        real = slots >= 0
        if real.any():
            first = int(slots[real][0])
            place = slice(first, first + int(real.sum()))
            key_cache.flatten(0, 1)[place] = key[real]
            value_cache.flatten(0, 1)[place] = value[real]
""",
    ),
]
