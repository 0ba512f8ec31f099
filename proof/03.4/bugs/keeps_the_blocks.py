STORY = "A learner forgets the blocks. After some hundred answers the cache is full of requests that are long gone."
CONCEPT = "A request that ends leaves at once: it is not in running, its blocks are free, and so is its id."
EDITS = [
    (
        ("                    self.kv_cache_manager.free(request)\n"),
        "",
    ),
]
