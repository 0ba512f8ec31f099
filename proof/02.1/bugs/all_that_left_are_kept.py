STORY = "remove() looks through a list of all blocks that ever left: each call costs more than the one before it."
CONCEPT = "A call costs the same, however long the queue is."
EDITS = [
    (
        "        self.num_free_blocks = 0\n",
        "        self.num_free_blocks = 0\n        self._gone: list[KVCacheBlock] = []\n",
    ),
    (
        "        before, after = block",
        """        again = self._gone.count(block)
        self._gone.append(block)
        before, after = block""",
    ),
]
