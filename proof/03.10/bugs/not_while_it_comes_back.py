STORY = (
    "A learner leaves the CPU blocks of a request that is coming back to the confirmation. If the step fails "
    "there is none."
)
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
            "        if request.is_finished and request.request_id not in self._hits:\n"
            "            self._forget(request.request_id)\n"
        ),
    ),
]
