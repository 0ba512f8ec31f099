STORY = (
    "How many blocks are published is noted by id and not forgotten when the request is preempted. A request "
    "that comes back, or another of its id, is not published up to there."
)
CONCEPT = "An id that comes again is another request: nothing of the former one is left."
EDITS = [
    (
        """            start, end = num_computed // block_size, num_tokens // block_size
""",
        """            start, end = num_computed // block_size, num_tokens // block_size
            noted = self.__dict__.setdefault("_noted", {})
            start = max(start, noted.get(request.request_id, 0))
            noted[request.request_id] = max(start, end)
""",
    ),
]
