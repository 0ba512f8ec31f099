STORY = "A learner crosses out the copies of one that goes out and comes back in the same step. Its blocks are others by now."
CONCEPT = "Copies out come before those in: a block that is given up may be filled in the same step."
EDITS = [
    (
        "            self._loading[request_id] = self.pool.fetch(request_id, block_ids, start)\n",
        (
            "            self._loading[request_id] = self.pool.fetch(request_id, block_ids, start)\n"
            "            if self._saving.pop(request_id, None):\n"
            "                self._loading.pop(request_id)\n"
        ),
    ),
]
