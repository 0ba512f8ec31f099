STORY = (
    "A learner drops the pairs of a failed step and keeps its promises: the pool is said to have what never arrived."
)
CONCEPT = "What a failed step was to copy out may never have arrived: it is computed again."
EDITS = [
    (
        (
            "        for request_id in list(self._swapping_out):\n"
            "            self._forget(request_id)\n"
            "        self._swapping_in.clear()\n"
            "        self._hits.clear()\n"
        ),
        ("        self._swapping_out.clear()\n        self._swapping_in.clear()\n        self._hits.clear()\n"),
    ),
]
