STORY = "A learner asks beforehand whether there is room, with < instead of <=."
CONCEPT = "All or nothing: a request that does not fit into the CPU pool as a whole is computed again."
EDITS = [
    (
        "        pairs = self.pool.store(request_id, block_ids)\n",
        "        pairs = self.pool.store(request_id, block_ids) if len(block_ids) < self.pool.num_free_blocks else None\n",
    ),
]
