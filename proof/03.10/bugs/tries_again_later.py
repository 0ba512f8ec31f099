STORY = "A learner leaves the copies out for the next step: what could not be copied now is copied then, from blocks that others have."
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
            "            self._loading.clear()\n"
        ),
    ),
]
