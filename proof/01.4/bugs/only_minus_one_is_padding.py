STORY = "Padding is compared with -1, as it is written in most mappings. Any other negative slot lies before the cache."
CONCEPT = "A negative slot is no place: neither the last slot, nor the first, nor the memory before the cache."
EDITS = [
    (
        """    if slot >= 0:
""",
        """    if slot != -1:
""",
    ),
]
