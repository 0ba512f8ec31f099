STORY = "A learner looks up every request in the pool, also those that never were there."
CONCEPT = "Somebody who was never swapped out is treated as ever, hits and further chunks included."
EDITS = [
    (
        (
            "        request_id = request.request_id\n"
            "        if request_id in self._num_tokens:\n"
            "            self._loading"
        ),
        ("        request_id = request.request_id\n        if request_id:\n            self._loading"),
    ),
]
