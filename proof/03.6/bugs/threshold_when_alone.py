STORY = (
    "A learner cuts every long prompt. An idle engine computes one in small steps although nobody else wants anything."
)
CONCEPT = "For a request that is alone the threshold does not count; others in flight may run or wait."
EDITS = [
    (
        "if threshold and len(self._requests) > 1:  # a lone request need not make room for others",
        "if threshold:",
    ),
]
