STORY = "If no block is free, every request that needs slots beyond its table or none at all is refused."
CONCEPT = "Slots for no tokens cost nothing, also when no block is free; a table of no blocks is none."
EDITS = [
    (
        """        new_blocks: list[KVCacheBlock] = []
""",
        """        new_blocks: list[KVCacheBlock] = []
        if not self.num_free_blocks and request.request_id not in self._tables:
            return None
""",
    ),
]
