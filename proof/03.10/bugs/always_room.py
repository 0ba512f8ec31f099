STORY = "A learner does not look at None: there was always room when it was tried."
CONCEPT = "All or nothing: a request that does not fit into the CPU pool as a whole is computed again."
EDITS = [
    (
        (
            "        if pairs is not None:\n"
            "            self._saving[request_id] = pairs\n"
            "            self._num_tokens[request_id] = request.num_computed_tokens\n"
        ),
        (
            "        self._saving[request_id] = pairs\n"
            "        self._num_tokens[request_id] = request.num_computed_tokens\n"
        ),
    ),
]
