STORY = (
    "A learner cuts every long prompt. An idle engine computes one in small steps although nobody else wants anything."
)
CONCEPT = "Alone a request has nobody to make room for: the threshold is not asked. Company may run or wait."
EDITS = [
    (
        "if threshold and len(self._requests) > 1:  # a lone request has nobody to make room for",
        "if threshold:",
    ),
]
