STORY = "A learner makes room: the one that has been in the pool for longest is thrown out for the newcomer."
CONCEPT = "All or nothing: a request that does not fit into the CPU pool as a whole is computed again."
EDITS = [
    (
        "        pairs = self.pool.store(request_id, block_ids)\n",
        (
            "        while len(block_ids) > self.pool.num_free_blocks and self._num_tokens:\n"
            "            self._forget(next(iter(self._num_tokens)))\n"
            "        pairs = self.pool.store(request_id, block_ids)\n"
        ),
    ),
]
