STORY = "A learner sets all counters of a victim to 0. Its answer then says that nothing of the prompt was cached."
CONCEPT = "A victim stays what it is: its limits, its salt, its number, its time and its first hit."
EDITS = [
    (
        "        self.kv_cache_manager.free(request)\n",
        ("        self.kv_cache_manager.free(request)\n        request.num_cached_tokens = 0\n"),
    ),
]
