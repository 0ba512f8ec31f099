STORY = "A learner stops at the outline. One long prompt fills each step, and the others wait for their next word."
CONCEPT = "With others in flight the threshold cuts a chunk, and so does the budget."
EDITS = [
    (
        "if threshold and len(self._requests) > 1:  # a lone request need not make room for others",
        "if threshold and False:",
    ),
]
