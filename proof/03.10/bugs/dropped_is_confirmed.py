STORY = "A learner treats a failed step like any other: what came in is taken for back."
CONCEPT = "What a failed step was to copy in is in the pool as before, and comes in once more."
EDITS = [
    (
        "list(self._saving if result is None else self._loading)",
        "list(self._loading)",
    ),
]
