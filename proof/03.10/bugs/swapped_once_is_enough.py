STORY = "A learner keeps the CPU blocks of who is back: the next time they need no copy. Nobody updates them."
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
            "            self._saving.clear()\n"
            "            self._loading.clear()\n"
        ),
    ),
]
