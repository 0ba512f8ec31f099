STORY = "Slots are kept in 16 bits to save memory, and 35,000 becomes negative: padding."
CONCEPT = "A step may have many rows, and a cache many slots."
EDITS = [
    (
        """        for token, slot in enumerate(metadata.slot_mapping.tolist()):
""",
        """        for token, slot in enumerate(metadata.slot_mapping.short().tolist()):
""",
    ),
]
