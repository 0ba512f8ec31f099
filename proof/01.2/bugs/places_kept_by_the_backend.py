STORY = (
    "The places are worked out once, as they are the same in each layer, and kept by the back end. In the next "
    "step they are still those of the first."
)
CONCEPT = "Each step stands alone: the next one has other slots, in the same metadata and the same back end."
EDITS = [
    (
        """        for token, slot in enumerate(metadata.slot_mapping.tolist()):
""",
        """        if not hasattr(self, '_slots'):
            self._slots = metadata.slot_mapping.tolist()
        for token, slot in enumerate(self._slots):
""",
    ),
]
