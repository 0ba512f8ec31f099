STORY = (
    "Each program begins at the first token's slot and goes on from there. A batch whose slots are neighbours "
    "comes out right."
)
CONCEPT = "The slot says where a token goes; its place in the batch does not."
EDITS = [
    (
        """    slot = tl.load(slot_mapping_ptr + token)
""",
        """    slot = tl.load(slot_mapping_ptr + token)
    if slot >= 0:
        slot = tl.load(slot_mapping_ptr) + token
""",
    ),
]
