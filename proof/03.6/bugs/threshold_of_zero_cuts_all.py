STORY = "A learner forgets that 0 means off. Nobody computes anything as soon as two requests are there."
CONCEPT = "With others in flight the threshold cuts a chunk, and so does the budget."
EDITS = [
    (
        "if threshold and len(self._requests) > 1:  # a lone request need not make room for others",
        "if len(self._requests) > 1:",
    ),
]
