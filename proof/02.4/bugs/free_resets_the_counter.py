STORY = "free() sets the counter to 0, though a connector and the scheduler still read it."
CONCEPT = "A request is only read: its counters and its status are the scheduler's."
EDITS = [
    (
        """        table = self._tables.pop(request.request_id, [])
""",
        """        table = self._tables.pop(request.request_id, [])
        num_written, request.num_computed_tokens = request.num_computed_tokens, 0
""",
    ),
    (
        "request.num_computed_tokens // self.block_size :]",
        "num_written // self.block_size :]",
    ),
]
