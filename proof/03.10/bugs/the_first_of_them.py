STORY = "A learner drops the first who was to go out."
CONCEPT = "A request that only ran when a step failed is not in the pool: its copies out are never made."
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
            "            for request_id in list(self._saving):\n"
            "                self._forget(request_id)\n"
            "                break\n"
            "            self._saving.clear()\n"
            "            self._loading.clear()\n"
        ),
    ),
]
