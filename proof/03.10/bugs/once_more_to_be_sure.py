STORY = "A learner lets the first block of what came in come in once more, a step later, in case it got lost."
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
            "            again = [pair for pairs in self._loading.values() for pair in pairs[:1]]\n"
            '            self._loading = {"": again} if again and "" not in self._loading else {}\n'
        ),
    ),
]
