STORY = "A learner gives up a load that failed twice: the copy in main memory must be bad then, and it is let go."
CONCEPT = "What a failed step was to copy in is in the pool as before, and comes in once more."
EDITS = [
    (
        "    def end_step(self, result: KVResult | None) -> None:\n"
        "        for request_id in list(self._saving if result is None else self._loading):\n",
        "    def end_step(self, result: KVResult | None) -> None:\n"
        "        failures = vars(self).setdefault('_failures', {})\n"
        "        for request_id in self._loading if result is None else ():\n"
        "            failures[request_id] = failures.get(request_id, 0) + 1\n"
        "            if failures[request_id] == 2:\n"
        "                self._num_tokens.pop(request_id, None)\n"
        "                self.pool.free(request_id)\n"
        "        for request_id in list(self._saving if result is None else self._loading):\n",
    )
]
