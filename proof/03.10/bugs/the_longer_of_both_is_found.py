STORY = "A learner notes how many tokens need no computing, which is what the scheduler was told."
CONCEPT = "Blocks that were to be filled are not: after a failed step nobody may find them in the prefix cache."
EDITS = [
    (
        "            self._hits[request_id] = start * self.block_size\n",
        "            self._hits[request_id] = max(num_swapped, start * self.block_size)\n",
    ),
]
