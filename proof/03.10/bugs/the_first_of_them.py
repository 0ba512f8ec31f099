STORY = "A learner drops the first who was to go out."
CONCEPT = "Who was only running when a step failed is not in the pool: its copies out are never made."
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
            "            break\n"
            "        self._swapping_in.clear()\n"
            "        self._hits.clear()\n"
        ),
    ),
]
