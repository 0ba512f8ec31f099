STORY = "A learner leaves the CPU blocks of a request that is coming back to the confirmation. If the step fails there is none."
CONCEPT = "A request that has ended holds no block, neither on the device nor in main memory."
EDITS = [
    (
        "        self._forget(request.request_id)\n",
        ("        if request.request_id not in self._loading:\n            self._forget(request.request_id)\n"),
    ),
]
