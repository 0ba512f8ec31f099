STORY = (
    "Names are remembered under id(request). When a request is gone, Python gives its place to another one, "
    "with the names in it."
)
CONCEPT = "Names belong to one request: an id that is used again, or its place in memory, says nothing."
EDITS = [
    (
        """        hashes, size = request.block_hashes, self.block_size
""",
        """        memory, size = self.__dict__.setdefault("_memory", {}), self.block_size
        hashes = request.block_hashes = memory.setdefault(id(request), request.block_hashes)
""",
    ),
]
