STORY = (
    "A learner counts those that run. The one that waits for a place has to wait for a long chunk, and at "
    "admission the first is always alone."
)
CONCEPT = "For a request that is alone the threshold does not count; others in flight may run or wait."
EDITS = [
    (
        "if threshold and len(self._requests) > 1:  # a lone request need not make room for others",
        "if threshold and len(self.running) > 1:",
    ),
]
