STORY = "The back end remembers the block size of its first call, and splits all later slots by it."
CONCEPT = "A layer has caches and blocks of its own: the next layer's write goes there, and nowhere else."
EDITS = [
    (
        """        for token, slot in enumerate(metadata.slot_mapping.tolist()):
""",
        """        self._block_size = getattr(self, "_block_size", metadata.block_size)
        for token, slot in enumerate(metadata.slot_mapping.tolist()):
""",
    ),
    (
        """divmod(slot, metadata.block_size)""",
        """divmod(slot, self._block_size)""",
    ),
]
