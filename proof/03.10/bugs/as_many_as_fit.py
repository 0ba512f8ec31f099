STORY = "A learner swaps out what fits and is ready to compute the rest. The law says all or nothing."
CONCEPT = "All or nothing: a request that does not fit into the CPU pool as a whole is computed again."
EDITS = [
    (
        (
            "        pairs = self.pool.store(request_id, block_ids)\n"
            "        if pairs is not None:\n"
            "            self._saving[request_id] = pairs\n"
            "            self._num_tokens[request_id] = request.num_computed_tokens\n"
        ),
        (
            "        num_fit = min(len(block_ids), self.pool.num_free_blocks)\n"
            "        pairs = self.pool.store(request_id, block_ids[:num_fit]) if num_fit else None\n"
            "        if pairs is not None:\n"
            "            self._saving[request_id] = pairs\n"
            "            num_tokens = request.num_computed_tokens\n"
            "            block_size = -(-num_tokens // len(block_ids))\n"
            "            self._num_tokens[request_id] = min(num_tokens, num_fit * block_size)\n"
        ),
    ),
]
