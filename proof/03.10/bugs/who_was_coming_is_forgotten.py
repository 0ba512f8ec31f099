STORY = "A learner forgets all whose copies were under way, those who were coming in, too."
CONCEPT = "What a failed step was to copy in is in the pool as before, and comes in once more."
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
            "            for request_id in list([*self._saving, *self._loading]):\n"
            "                self._forget(request_id)\n"
            "            self._saving.clear()\n"
            "            self._loading.clear()\n"
        ),
    ),
]
