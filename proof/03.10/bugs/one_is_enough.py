STORY = "A learner frees the first who is back, and breaks off."
CONCEPT = "Who is back needs the CPU pool no more, but not before the step is confirmed; who waits keeps its place."
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
            "            break\n"
            "        self._swapping_out.clear()\n"
            "        self._swapping_in.clear()\n"
            "        self._hits.clear()\n"
        ),
    ),
]
