STORY = "Names are remembered under the request's id. A later request of the same id gets the names of the old tokens."
CONCEPT = "Names belong to one request: an id that is used again, or its place in memory, says nothing."
EDITS = [
    (
        """        hashes, size = request.block_hashes, self.block_size
""",
        """        memory, size = self.__dict__.setdefault("_memory", {}), self.block_size
        hashes = request.block_hashes = memory.setdefault(request.request_id, request.block_hashes)
""",
    ),
]
