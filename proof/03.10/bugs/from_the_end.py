STORY = "A learner hands the pool the blocks in reverse order, so that each holds another's letters."
CONCEPT = "It comes back to where it was: the tokens in the CPU pool need no computing."
EDITS = [
    (
        "            self._loading[request_id] = self.pool.fetch(request_id, block_ids, start)\n",
        "            self._loading[request_id] = self.pool.fetch(request_id, block_ids[::-1], start)\n",
    ),
]
