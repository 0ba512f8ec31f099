STORY = "A learner writes down the number of tokens before the swap space has said that they fit."
CONCEPT = "All or nothing: who does not fit into the CPU pool as a whole is computed again."
EDITS = [
    (
        (
            "        if pairs is not None:\n"
            "            self._swapping_out[request_id] = pairs\n"
            "            self._swapped[request_id] = num_tokens\n"
        ),
        (
            "        self._swapped[request_id] = num_tokens\n"
            "        if pairs is not None:\n"
            "            self._swapping_out[request_id] = pairs\n"
        ),
    ),
]
