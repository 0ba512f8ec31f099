STORY = "free() of blocks that have no name leaves an empty table behind."
CONCEPT = "With prefix caching off there are slots, and nothing is published."
EDITS = [
    (
        "        self._num_published.pop(request.request_id, None)\n",
        "        if table and not any(block.block_hash for block in table) and not self.enable_prefix_caching:\n            self._tables[request.request_id] = []\n        self._num_published.pop(request.request_id, None)\n",
    )
]
