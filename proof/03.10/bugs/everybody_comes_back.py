STORY = "A learner looks up every request in the pool, also those that never were there."
CONCEPT = "A request that was never swapped out is treated as usual, with its hits and further chunks."
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
