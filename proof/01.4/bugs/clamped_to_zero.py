STORY = "Negative slots are clamped so that the address is legal. Padding overwrites the first slot."
CONCEPT = "A negative slot is no place: neither the last slot, nor the first, nor the memory before the cache."
EDITS = [
    (
        """    slot = tl.load(slot_mapping_ptr + token)
""",
        """    slot = tl.maximum(tl.load(slot_mapping_ptr + token), 0)
""",
    ),
]
