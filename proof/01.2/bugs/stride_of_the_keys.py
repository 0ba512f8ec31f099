STORY = "The values are read as far apart as the keys are."
CONCEPT = "Key and value are views into the wider matrix of a projection: their rows need not be neighbours."
EDITS = [
    (
        """        for token, slot in enumerate(metadata.slot_mapping.tolist()):
""",
        """        value = value.as_strided(value.shape, key.stride()) if value.is_contiguous() else value
        for token, slot in enumerate(metadata.slot_mapping.tolist()):
""",
    ),
]
