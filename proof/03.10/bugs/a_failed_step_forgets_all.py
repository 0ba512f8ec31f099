STORY = "A learner trusts nothing of a failed step, and forgets who was to come in, too. Usually the manager has taken it off the list by then."
CONCEPT = "The connector alone: what a failed step was to load is there as before, and in no copy of the next step."
EDITS = [
    (
        "        for request_id in list(self._saving if result is None else self._loading):\n",
        "        for request_id in list({**self._saving, **self._loading} if result is None else self._loading):\n",
    ),
    (
        "        if request_id in self._num_tokens:  # it was about to come back when the step failed\n            return\n",
        "        if request_id in self._num_tokens:  # it was about to come back when the step failed\n            self._loading.pop(request_id, None)\n            return\n",
    ),
]
