STORY = "The hit of a request is kept until it comes back. By then its blocks may be somebody else's."
CONCEPT = "What can be found changes: it is looked up again each time, for the same request too."
EDITS = [
    (
        """        hits: list[KVCacheBlock] = []
        if""",
        """        memory = self.__dict__.setdefault("_hits", {})
        if memory.get(request.request_id):
            return list(memory[request.request_id]), len(memory[request.request_id]) * self.block_size
        hits: list[KVCacheBlock] = memory.setdefault(request.request_id, [])
        if""",
    ),
]
