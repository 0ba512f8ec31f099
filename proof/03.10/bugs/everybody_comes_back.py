STORY = "A learner notes a hit for everybody, also for those who never were in the pool, and looks them up there."
CONCEPT = "Somebody who was never swapped out is treated as ever, hits and further chunks included."
EDITS = [
    (
        "        if request_id not in self._swapped or request_id in self._tables:\n",
        "        if request_id in self._tables:\n",
    ),
    (
        "num_swapped, start = self._swapped[request_id], len(computed_blocks)",
        "num_swapped, start = self._swapped.get(request_id, 0), len(computed_blocks)",
    ),
]
