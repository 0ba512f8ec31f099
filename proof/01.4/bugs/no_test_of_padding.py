STORY = "Padding is not looked for. Slot -1 lies right before the cache, in memory of somebody else."
CONCEPT = "A negative slot is no place: neither the last slot, nor the first, nor the memory before the cache."
EDITS = [
    (
        """    if slot >= 0:
""",
        """    if slot >= -1:
""",
    ),
]
