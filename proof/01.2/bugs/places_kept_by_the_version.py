STORY = "The slots are read again if torch has counted a change of the tensor. A fill through NumPy is not counted."
CONCEPT = "Each step stands alone: the next one has other slots, in the same metadata and the same back end."
EDITS = [
    (
        """        for token, slot in enumerate(metadata.slot_mapping.tolist()):
""",
        """        mapping = metadata.slot_mapping
        if getattr(self, "_read", None) != (id(mapping), mapping._version):
            self._read, self._mapping, self._slots = (id(mapping), mapping._version), mapping, mapping.tolist()
        for token, slot in enumerate(self._slots):
""",
    ),
]
