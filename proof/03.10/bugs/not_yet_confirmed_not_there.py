STORY = (
    "A learner lets only those come back whose copies out are confirmed; the others are told to be there all the same."
)
CONCEPT = "Copies out come before those in: a block that is given up may be filled in the same step."
EDITS = [
    (
        ("        if request_id in self._num_tokens:\n            self._loading"),
        ("        if request_id in self._num_tokens and request_id not in self._saving:\n            self._loading"),
    ),
]
