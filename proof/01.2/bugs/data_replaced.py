STORY = "The caches are copied, and the copies put in the place of their data: who shares the memory sees nothing."
CONCEPT = "The key of a row goes into the caller's key cache, its value into the caller's value cache."
EDITS = [
    (
        """        for token, slot in enumerate(metadata.slot_mapping.tolist()):
""",
        """        key_cache.data, value_cache.data = key_cache.clone(), value_cache.clone()
        for token, slot in enumerate(metadata.slot_mapping.tolist()):
""",
    ),
]
