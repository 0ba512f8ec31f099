STORY = "A learner keeps the pairs of those that came in, in one list. They come in again, over what has been computed since."
CONCEPT = "A copy belongs to one step: in the next one its blocks may belong to another request."
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
            "            for request_id in list(self._loading):\n"
            "                self._forget(request_id)\n"
            "            self._saving.clear()\n"
            '            self._loading = {"": [pair for pairs in self._loading.values() for pair in pairs]}\n'
        ),
    ),
]
