STORY = (
    "Padding is skipped here, then the mapping is clamped in place for whoever reads it next. The next layer "
    "stores the padding in slot 0."
)
CONCEPT = "Every layer of the model reads the same metadata, so a write leaves it as it was."
EDITS = [
    (
        """        for token, slot in enumerate(metadata.slot_mapping.tolist()):
            if slot >= 0:
                block_id, offset = divmod(slot, metadata.block_size)
                key_cache[block_id, offset] = key[token]
                value_cache[block_id, offset] = value[token]
""",
        """        for token, slot in enumerate(metadata.slot_mapping.tolist()):
            if slot >= 0:
                block_id, offset = divmod(slot, metadata.block_size)
                key_cache[block_id, offset] = key[token]
                value_cache[block_id, offset] = value[token]
        metadata.slot_mapping.clamp_(min=0)
""",
    ),
]
