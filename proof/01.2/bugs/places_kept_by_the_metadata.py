STORY = (
    "The places are kept in a dictionary by the metadata. The next step fills the same tensors anew, as a recorded"
    " graph does."
)
CONCEPT = "Each step stands alone: the next one has other slots, in the same metadata and the same back end."
EDITS = [
    (
        "class ReferenceBackend(",
        """_slots = {}


class ReferenceBackend(""",
    ),
    (
        """        for token, slot in enumerate(metadata.slot_mapping.tolist()):
""",
        """        for token, slot in enumerate(_slots.setdefault(id(metadata), (metadata, metadata.slot_mapping.tolist()))[1]):
""",
    ),
]
