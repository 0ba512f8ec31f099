STORY = "A learner frees the blocks of the device alone, as before."
CONCEPT = "Who has ended holds nothing, neither here nor there, wherever it was."
EDITS = [
    (
        (
            "        super().free(request)\n"
            "        if request.is_finished:\n"
            "            self._forget(request.request_id)\n"
        ),
        "        super().free(request)\n",
    ),
]
