STORY = "A learner takes pairs that are there for a sign that this step has been dealt with."
CONCEPT = "Each in its own place: what two of them swap out in one step is copied side by side."
EDITS = [
    (
        (
            "        if request_id in self._num_tokens:  # it was about to come back when the step failed\n"
            "            return\n"
        ),
        ("        if request_id in self._num_tokens or self._saving:\n            return\n"),
    ),
]
