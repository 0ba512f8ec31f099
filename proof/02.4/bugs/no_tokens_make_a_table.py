STORY = "Slots for no tokens leave an empty table behind."
CONCEPT = "Slots for no tokens cost nothing, also when no block is free; a table of no blocks is none."
EDITS = [
    (
        "        new_blocks: list[KVCacheBlock] = []\n",
        "        new_blocks: list[KVCacheBlock] = []\n        self._tables.setdefault(request.request_id, [])\n",
    )
]
