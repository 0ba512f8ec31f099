STORY = "How many blocks are published is noted in a dictionary of the class, so a second manager publishes nothing of an equal id."
CONCEPT = "Two managers know nothing of each other."
EDITS = [
    ("    def free(", "    _noted: dict[str, int] = {}\n\n    def free("),
    (
        "        table = self._tables.pop(request.request_id, [])\n",
        "        table = self._tables.pop(request.request_id, [])\n        self._noted.pop(request.request_id, None)\n",
    ),
    (
        "            start, end = num_computed // block_size, num_tokens // block_size\n",
        "            start, end = num_computed // block_size, num_tokens // block_size\n            start = max(start, self._noted.get(request.request_id, 0))\n            self._noted[request.request_id] = max(start, end)\n",
    ),
]
