STORY = (
    "A learner drops the pairs of a failed step and keeps its promises: the pool is said to have what never arrived."
)
CONCEPT = "What a failed step was to copy out may never have arrived: it is computed again."
EDITS = [
    (
        (
            "        for request_id in list(self._saving if result is None else self._loading):\n"
            "            self._forget(request_id)\n"
            "        self._saving.clear()\n"
            "        self._loading.clear()\n"
        ),
        (
            "        if result is not None:\n"
            "            for request_id in list(self._loading):\n"
            "                self._forget(request_id)\n"
            "            self._saving.clear()\n"
            "            self._loading.clear()\n"
            "        else:\n"
            "            self._saving.clear()\n"
            "            self._loading.clear()\n"
        ),
    ),
]
