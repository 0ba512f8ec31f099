STORY = "A learner looks at the queue only. As soon as all are admitted, the long prompt fills the steps."
CONCEPT = "For a request that is alone the threshold does not count; others in flight may run or wait."
EDITS = [
    (
        "if threshold and len(self._requests) > 1:  # a lone request need not make room for others",
        "if threshold and self.waiting:",
    ),
]
