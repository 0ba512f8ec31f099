STORY = "A learner remembers who has ended, so that nothing of it is saved again. An id may be used again."
CONCEPT = "An id is free when its request has ended: the next one of that name is saved like any other."
EDITS = [
    (
        "        self._forget(request.request_id)\n",
        (
            "        self._forget(request.request_id)\n"
            '        self.ended = {*vars(self).get("ended", ()), request.request_id}\n'
        ),
    ),
    (
        (
            "        if request_id in self._num_tokens:  # it was about to come back when the step failed\n"
            "            return\n"
        ),
        (
            '        if request_id in self._num_tokens or request_id in vars(self).get("ended", ()):\n'
            "            return\n"
        ),
    ),
]
