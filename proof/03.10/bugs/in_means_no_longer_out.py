STORY = "A learner takes back the copies out of somebody who comes in: it is not on its way out any more."
CONCEPT = "Copies out come before those in: a block that is given up may be filled in the same step."
EDITS = [
    (
        "            self._loading[request_id] = self.pool.fetch(request_id, block_ids, start)\n",
        (
            "            self._loading[request_id] = self.pool.fetch(request_id, block_ids, start)\n"
            "            self._saving.pop(request_id, None)\n"
        ),
    ),
]
