STORY = "The slots are sorted so that memory is written in order, and the rows are not. Tokens change places."
CONCEPT = "The rows of a batch lie side by side, their slots do not: each row goes where its own slot says."
EDITS = [
    (
        "enumerate(metadata.slot_mapping.tolist())",
        "enumerate(sorted(metadata.slot_mapping.tolist(), key=lambda slot: (slot < 0, slot)))",
    ),
]
