STORY = "Slots for no tokens leave an empty table behind."
CONCEPT = "Slots for no tokens cost nothing, also when no block is free; a table of no blocks is none."
EDITS = [
    (
        """        new_blocks: list[KVCacheBlock] = []
""",
        """        new_blocks: list[KVCacheBlock] = []
        self._tables.setdefault(request.request_id, [])
""",
    ),
]
