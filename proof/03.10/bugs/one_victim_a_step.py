STORY = "A learner keeps the pairs of the last victim only: a step usually has one."
CONCEPT = "Each in its own place: what two of them swap out in one step is copied side by side."
EDITS = [
    (
        (
            "        if pairs is not None:\n"
            "            self._swapping_out[request_id] = pairs\n"
            "            self._swapped[request_id] = num_tokens\n"
        ),
        (
            "        if pairs is not None:\n"
            "            self._swapping_out.clear()\n"
            "            self._swapping_out[request_id] = pairs\n"
            "            self._swapped[request_id] = num_tokens\n"
        ),
    ),
]
