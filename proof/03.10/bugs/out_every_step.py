STORY = "A learner never takes the pairs out of the list. In the next step they copy what others have written there."
CONCEPT = "A copy belongs to one step: in the next one its blocks may be somebody else's."
EDITS = [
    (
        (
            "        for request_id in list(self._hits):\n"
            "            self._forget(request_id)\n"
            "        self._swapping_out.clear()\n"
            "        self._swapping_in.clear()\n"
            "        self._hits.clear()\n"
        ),
        (
            "        for request_id in list(self._hits):\n"
            "            self._forget(request_id)\n"
            "        self._swapping_in.clear()\n"
            "        self._hits.clear()\n"
        ),
    ),
]
