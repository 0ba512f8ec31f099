STORY = "A learner waits with the CPU blocks of an aborted request until it has come back. It never does."
CONCEPT = "Who has ended holds nothing, neither here nor there, wherever it was."
EDITS = [
    (
        "        self._forget(request.request_id)\n",
        ("        if request.request_id in self._loading:\n            self._forget(request.request_id)\n"),
    ),
]
