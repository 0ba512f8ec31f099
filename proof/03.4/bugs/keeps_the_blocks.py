STORY = "A learner forgets the blocks. After some hundred answers the cache is full of requests that are long gone."
CONCEPT = "Whoever ends leaves at once: out of running, blocks back, and its id is free again."
EDITS = [
    (
        ("                    self.kv_cache_manager.free(request)\n"),
        "",
    ),
]
