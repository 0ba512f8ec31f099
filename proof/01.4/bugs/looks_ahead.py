STORY = "The slot of the next token is loaded in advance. The last token has no next one."
CONCEPT = "A program is one token: it takes the slot, the key and the value of its own row, and nothing else."
EDITS = [
    (
        """    slot = tl.load(slot_mapping_ptr + token)
""",
        """    slot = tl.load(slot_mapping_ptr + token)
    ahead = tl.load(slot_mapping_ptr + token + 1)
""",
    ),
]
