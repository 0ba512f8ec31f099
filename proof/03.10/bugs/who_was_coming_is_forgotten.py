STORY = "A learner forgets all whose copies were under way, those who were coming in, too."
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
            "        for request_id in [*self._swapping_out, *self._swapping_in]:\n"
            "            self._forget(request_id)\n"
            "        self._swapping_in.clear()\n"
            "        self._hits.clear()\n"
        ),
    ),
]
