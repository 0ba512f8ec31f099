STORY = "A learner keeps the pairs of the last victim only: a step usually has one."
CONCEPT = "Each in its own place: what two of them swap out in one step is copied side by side."
EDITS = [
    (
        "            self._saving[request_id] = pairs\n",
        ("            self._saving.clear()\n            self._saving[request_id] = pairs\n"),
    ),
]
