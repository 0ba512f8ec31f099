STORY = "A learner does not look at None: there was always room when it was tried."
CONCEPT = "All or nothing: who does not fit into the CPU pool as a whole is computed again."
EDITS = [
    (
        (
            "        if pairs is not None:\n"
            "            self._swapping_out[request_id] = pairs\n"
            "            self._swapped[request_id] = num_tokens\n"
        ),
        ("        self._swapping_out[request_id] = pairs\n        self._swapped[request_id] = num_tokens\n"),
    ),
]
