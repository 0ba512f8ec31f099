STORY = "A learner makes a fresh copy of somebody who is in the pool already: its blocks were not filled yet."
CONCEPT = "What a failed step was to copy in is in the pool as before, and comes in once more."
EDITS = [
    (
        (
            "        if request_id in self._num_tokens:  # it was about to come back when the step failed\n"
            "            return\n"
        ),
        ("        if request_id in self._num_tokens:\n            self._forget(request_id)\n"),
    ),
]
