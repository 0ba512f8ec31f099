STORY = "A learner frees the CPU blocks of an aborted request and leaves its pairs: two copies go to one CPU block."
CONCEPT = "A CPU block is the target of one copy: the copy of a request that has ended is no longer made."
EDITS = [
    (
        "        self._forget(request.request_id)\n",
        ("        self._num_tokens.pop(request.request_id, None)\n        self.pool.free(request.request_id)\n"),
    ),
]
