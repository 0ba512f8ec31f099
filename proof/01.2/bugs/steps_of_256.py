STORY = "A step has 256 rows at most; those behind them are left out."
CONCEPT = "A step may have many rows, and a cache many slots."
EDITS = [
    (
        """        for token, slot in enumerate(metadata.slot_mapping.tolist()):
""",
        """        for token, slot in enumerate(metadata.slot_mapping[:256].tolist()):
""",
    ),
]
