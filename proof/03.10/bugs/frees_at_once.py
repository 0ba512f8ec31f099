STORY = "A learner lets go of the CPU blocks as soon as the pairs are told."
CONCEPT = "A request that is back leaves the CPU pool once the step is confirmed; one that waits keeps its place."
EDITS = [
    (
        "            self._loading[request_id] = self.pool.fetch(request_id, block_ids, start)\n",
        (
            "            self._loading[request_id] = self.pool.fetch(request_id, block_ids, start)\n"
            "            self.pool.free(request_id)\n"
        ),
    ),
]
