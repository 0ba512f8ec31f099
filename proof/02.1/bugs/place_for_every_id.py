STORY = "append_n() keeps a list with a place for every id up to the largest: its cost grows with the ids, and not with the blocks."
CONCEPT = "Ids may be far apart: what a queue costs does not grow with them."
EDITS = [
    (
        "        self.num_free_blocks = 0\n",
        "        self.num_free_blocks = 0\n        self._places: list[KVCacheBlock | None] = []\n",
    ),
    (
        """            self.num_free_blocks += 1
        last.next_free_block = self._tail""",
        """            self.num_free_blocks += 1
            self._places += [None] * (block.block_id + 1 - len(self._places))
            self._places[block.block_id] = block
        last.next_free_block = self._tail""",
    ),
]
