STORY = "The back end keeps the cache of the first layer that it sees; the values of all layers go there."
CONCEPT = "A layer has caches and blocks of its own: the next layer's write goes there, and nowhere else."
EDITS = [
    (
        """        for token, slot in enumerate(metadata.slot_mapping.tolist()):
""",
        """        self._values = value_cache = getattr(self, '_values', value_cache)
        for token, slot in enumerate(metadata.slot_mapping.tolist()):
""",
    ),
]
