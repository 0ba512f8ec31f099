STORY = "A learner waits in save until there is room in the pool."
CONCEPT = "All or nothing: a request that does not fit into the CPU pool as a whole is computed again."
EDITS = [
    (
        "        pairs = self.pool.store(request_id, block_ids)\n",
        (
            "        pairs = self.pool.store(request_id, block_ids)\n"
            "        while pairs is None:\n"
            "            pairs = self.pool.store(request_id, block_ids)\n"
        ),
    ),
]
