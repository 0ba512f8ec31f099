STORY = "A learner frees the CPU blocks of who is back and leaves its number of tokens: the second time it seems to be there."
CONCEPT = "A request that is back runs as usual: it grows, and may go out again with all that it has by then."
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
            "                self.pool.free(request_id)\n"
            "            self._saving.clear()\n"
            "            self._loading.clear()\n"
        ),
    ),
]
