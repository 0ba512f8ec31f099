STORY = "A learner forgets everybody after a failed step, to be on the safe side. What went out before was there."
CONCEPT = "What a failed step was to copy out may never have arrived: it is computed again."
EDITS = [
    (
        (
            "        for request_id in list(self._swapping_out):\n"
            "            self._forget(request_id)\n"
            "        self._swapping_in.clear()\n"
            "        self._hits.clear()\n"
        ),
        (
            "        for request_id in list(self._swapped):\n"
            "            self._forget(request_id)\n"
            "        self._swapping_in.clear()\n"
            "        self._hits.clear()\n"
        ),
    ),
]
