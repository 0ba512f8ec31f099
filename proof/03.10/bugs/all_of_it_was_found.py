STORY = "A learner notes as found what was in the pool, and its blocks can be found although nobody filled them."
CONCEPT = "Blocks that were to be filled are not: after a failed step nobody may find them in the prefix cache."
EDITS = [
    (
        "            self._hits[request_id] = start * self.block_size\n",
        "            self._hits[request_id] = num_swapped\n",
    ),
]
