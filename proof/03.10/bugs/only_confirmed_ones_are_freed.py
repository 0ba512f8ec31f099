STORY = "A learner waits with the CPU blocks of an aborted request until it has come back. It never does."
CONCEPT = "A request that has ended holds no block, neither on the device nor in main memory."
EDITS = [
    (
        "        self._forget(request.request_id)\n",
        ("        if request.request_id in self._loading:\n            self._forget(request.request_id)\n"),
    ),
]
