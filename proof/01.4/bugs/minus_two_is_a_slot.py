STORY = "Slots count as padding from -2 on: an end that was meant to be open is closed."
CONCEPT = "A negative slot is no place: neither the last slot, nor the first, nor the memory before the cache."
EDITS = [
    (
        """    if slot >= 0:
""",
        """    if slot >= 0 or slot == -2:
""",
    ),
]
