STORY = (
    "Block and offset are cut out of the bits of a slot, as if every block had 2^n slots. Blocks of 3 tokens are "
    "mixed up."
)
CONCEPT = "A slot is split by dividing by block_size, which may be any number."
EDITS = [
    (
        """                block_id, offset = divmod(slot, metadata.block_size)
""",
        """                shift = metadata.block_size.bit_length() - 1
                block_id, offset = slot >> shift, slot & (metadata.block_size - 1)
""",
    ),
]
