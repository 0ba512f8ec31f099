STORY = "-1 is turned into the last slot, as in Python. The last block belongs to somebody (seen in vLLM #43810)."
CONCEPT = "A negative slot is no place: neither the last slot, nor the first, nor the memory before the cache."
EDITS = [
    (
        """    slot = tl.load(slot_mapping_ptr + token)
""",
        """    slot = tl.load(slot_mapping_ptr + token)
    if slot < 0:
        slot += 8
""",
    ),
]
