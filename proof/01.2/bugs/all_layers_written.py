STORY = "The back end remembers each cache of values and writes into all of them."
CONCEPT = "A layer has caches and blocks of its own: the next layer's write goes there, and nowhere else."
EDITS = [
    (
        """        for token, slot in enumerate(metadata.slot_mapping.tolist()):
""",
        """        self._seen = [*getattr(self, '_seen', []), value_cache]
        for token, slot in enumerate(metadata.slot_mapping.tolist()):
""",
    ),
    (
        """                value_cache[block_id, offset] = value[token]
""",
        """                for cache in self._seen:
                    cache[block_id, offset] = value[token]
""",
    ),
]
