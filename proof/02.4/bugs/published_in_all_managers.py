STORY = (
    "How many blocks are published is noted in a dictionary of the class, so a second manager publishes "
    "nothing of an equal id."
)
CONCEPT = "Two managers know nothing of each other."
EDITS = [
    (
        "    def free(",
        """    _noted: dict[str, int] = {}

    def free(""",
    ),
    (
        """        table = self._tables.pop(request.request_id, [])
""",
        """        table = self._tables.pop(request.request_id, [])
        self._noted.pop(request.request_id, None)
""",
    ),
    (
        """            start, end = num_computed // block_size, num_tokens // block_size
""",
        """            start, end = num_computed // block_size, num_tokens // block_size
            start = max(start, self._noted.get(request.request_id, 0))
            self._noted[request.request_id] = max(start, end)
""",
    ),
]
