STORY = "A learner forgets to empty the hits: the next step that goes well confirms who never came."
CONCEPT = "What a failed step was to copy in is in the pool as before, and comes in once more."
EDITS = [
    (
        (
            "        for request_id in list(self._swapping_out):\n"
            "            self._forget(request_id)\n"
            "        self._swapping_in.clear()\n"
            "        self._hits.clear()\n"
        ),
        (
            "        for request_id in list(self._swapping_out):\n"
            "            self._forget(request_id)\n"
            "        self._swapping_in.clear()\n"
        ),
    ),
]
