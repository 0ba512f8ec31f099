STORY = "A learner forgets those whose copies out are confirmed instead of those who are back."
CONCEPT = "A request that is back leaves the CPU pool once the step is confirmed; one that waits keeps its place."
EDITS = [
    (
        (
            "        for request_id in list(self._saving if result is None else self._loading):\n"
            "            self._forget(request_id)\n"
            "        self._saving.clear()\n"
            "        self._loading.clear()\n"
        ),
        (
            "        if result is None:\n"
            "            for request_id in list(self._saving):\n"
            "                self._forget(request_id)\n"
            "            self._saving.clear()\n"
            "            self._loading.clear()\n"
            "        else:\n"
            "            for request_id in list(self._saving):\n"
            "                self._forget(request_id)\n"
            "            self._saving.clear()\n"
            "            self._loading.clear()\n"
        ),
    ),
]
