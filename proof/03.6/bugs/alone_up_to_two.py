STORY = "A learner is off by one and calls two requests alone. The second waits for the whole prompt of the first."
CONCEPT = "With others in flight the threshold cuts a chunk, and so does the budget."
EDITS = [
    (
        "if threshold and len(self._requests) > 1:  # a lone request need not make room for others",
        "if threshold and len(self._requests) > 2:",
    ),
]
