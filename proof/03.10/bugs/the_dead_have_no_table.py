STORY = "A learner frees a finished request in the pool and forgets that it may have blocks on the device."
CONCEPT = "Who has ended holds nothing, neither here nor there, wherever it was."
EDITS = [
    (
        (
            "        super().free(request)\n"
            "        if request.is_finished:\n"
            "            self._forget(request.request_id)\n"
        ),
        (
            "        if request.is_finished and request.request_id in self._swapped:\n"
            "            self._forget(request.request_id)\n"
            "        else:\n"
            "            super().free(request)\n"
        ),
    ),
]
