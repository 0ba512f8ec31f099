STORY = "A learner is off by one and calls two requests alone. The second waits for the whole prompt of the first."
CONCEPT = "In company a chunk is cut by the threshold as well as by the budget."
EDITS = [
    (
        "if threshold and len(self._requests) > 1:  # a lone request has nobody to make room for",
        "if threshold and len(self._requests) > 2:",
    ),
]
