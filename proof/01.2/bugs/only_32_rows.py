STORY = "A fixed number of rows is stored, as many as the largest batch that was recorded."
CONCEPT = "Whatever the batch, each row stands in its slot, and nothing else has changed."
EDITS = [
    (
        """        for token, slot in enumerate(metadata.slot_mapping.tolist()):
""",
        """        for token, slot in enumerate(metadata.slot_mapping.tolist()[:32]):
""",
    ),
]
