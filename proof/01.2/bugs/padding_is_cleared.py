STORY = "Rows of padding are set to 0 before anything is stored. The batch is the model's, which goes on with it."
CONCEPT = "The layer goes on with its keys and values: they are read, not changed."
EDITS = [
    (
        """        for token, slot in enumerate(metadata.slot_mapping.tolist()):
""",
        """        key[metadata.slot_mapping < 0] = 0
        for token, slot in enumerate(metadata.slot_mapping.tolist()):
""",
    ),
]
