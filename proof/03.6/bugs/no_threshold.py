STORY = "A learner stops at the outline. One long prompt fills each step, and the others wait for their next word."
CONCEPT = "In company a chunk is cut by the threshold as well as by the budget."
EDITS = [
    (
        "if threshold and len(self._requests) > 1:  # a lone request has nobody to make room for",
        "if threshold and False:",
    ),
]
