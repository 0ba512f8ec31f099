STORY = "A learner looks into the pool and forgets the prefix cache for everybody else."
CONCEPT = "Somebody who was never swapped out is treated as ever, hits and further chunks included."
EDITS = [
    (
        "        return hits, max(num_hit, self._swapped.get(request.request_id, 0))\n",
        (
            "        return (hits, max(num_hit, self._swapped[request.request_id])) if request.request_id in self._swapped else ([], 0)\n"
        ),
    ),
]
