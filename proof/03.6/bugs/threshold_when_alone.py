STORY = (
    "A learner cuts every long prompt. An idle engine computes one in small steps although nobody else wants anything."
)
CONCEPT = "For a request that is alone the threshold does not count; others in flight may run or wait."
EDITS = [
    (
        "if threshold and len(self._requests) > 1:  # a lone request has nobody to make room for",
        "if threshold:",
    ),
]
