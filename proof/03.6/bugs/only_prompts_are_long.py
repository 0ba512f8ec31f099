STORY = (
    "A learner leaves alone whatever is less than twice the threshold behind, since two small chunks cost "
    "more than one. The limit is the threshold."
)
CONCEPT = "In any run both rules answer from the state of the moment, whatever they answered before."
EDITS = [
    (
        "if threshold and len(self._requests) > 1:",
        "if threshold and len(self._requests) > 1 and num_new_tokens >= threshold + 2:",
    ),
]
