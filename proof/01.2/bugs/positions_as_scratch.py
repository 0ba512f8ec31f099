STORY = (
    "The positions are used as room for the offsets. RoPE of the next layer turns each key by an angle below "
    "block_size."
)
CONCEPT = "Every layer of the model reads the same metadata, so a write leaves it as it was."
EDITS = [
    (
        """        for token, slot in enumerate(metadata.slot_mapping.tolist()):
""",
        """        metadata.positions.copy_(metadata.slot_mapping % metadata.block_size)
        for token, slot in enumerate(metadata.slot_mapping.tolist()):
""",
    ),
]
