STORY = "The slot is made an int32, like the number of the program. A slot far below 0 wraps around and is somebody's."
CONCEPT = "A negative slot is no place: neither the last slot, nor the first, nor the memory before the cache."
EDITS = [
    (
        """    slot = tl.load(slot_mapping_ptr + token)
""",
        """    slot = tl.load(slot_mapping_ptr + token).to(tl.int32)
""",
    ),
]
