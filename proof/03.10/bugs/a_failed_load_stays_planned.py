STORY = "A learner keeps the loads of a failed step, since they are still to be made."
CONCEPT = "The connector alone: what a failed step was to load is there as before, and in no copy of the next step."
EDITS = [
    (
        "        self._saving.clear()\n        self._loading.clear()\n",
        "        self._saving.clear()\n        if result is not None:\n            self._loading.clear()\n",
    ),
    (
        "        if request_id in self._num_tokens:  # it was about to come back when the step failed\n            return\n",
        "        if request_id in self._num_tokens:  # it was about to come back when the step failed\n            self._loading.pop(request_id, None)\n            return\n",
    ),
]
