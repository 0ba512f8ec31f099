STORY = "A learner waits with the CPU blocks of an aborted request until it has come back. It never does."
CONCEPT = "Who has ended holds nothing, neither here nor there, wherever it was."
EDITS = [
    (
        (
            "        super().free(request)\n"
            "        if request.is_finished:\n"
            "            self._forget(request.request_id)\n"
        ),
        (
            "        super().free(request)\n"
            "        if request.is_finished and request.request_id in self._hits:\n"
            "            self._forget(request.request_id)\n"
        ),
    ),
]
