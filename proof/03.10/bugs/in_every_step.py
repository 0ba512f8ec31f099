STORY = "A learner leaves the pairs of those who came in. They come in again, over what has been computed since."
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
            "        self._swapping_out.clear()\n"
            "        self._hits.clear()\n"
        ),
    ),
]
