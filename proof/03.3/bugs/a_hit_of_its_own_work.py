STORY = "A learner fills in a hit where there was none: what the victim had computed."
CONCEPT = "A victim stays what it is: its limits, its salt, its number, its time and its first hit."
EDITS = [
    (
        "        self.kv_cache_manager.free(request)\n",
        "        request.num_cached_tokens = request.num_cached_tokens or request.num_computed_tokens\n        self.kv_cache_manager.free(request)\n",
    ),
]
