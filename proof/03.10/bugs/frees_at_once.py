STORY = "A learner lets go of the CPU blocks as soon as the pairs are told."
CONCEPT = "Who is back needs the CPU pool no more, but not before the step is confirmed; who waits keeps its place."
EDITS = [
    (
        "            self._loading[request_id] = self.pool.fetch(request_id, block_ids, start)\n",
        (
            "            self._loading[request_id] = self.pool.fetch(request_id, block_ids, start)\n"
            "            self.pool.free(request_id)\n"
        ),
    ),
]
