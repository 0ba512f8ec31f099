STORY = "A look-up counts when it is made, also for a head that is then refused: once for each step that it waits."
CONCEPT = "Your parts decide together as the reference does: first come, first served."
EDITS = [
    (
        "            if n > token_budget or",
        "            if self.kv_cache_manager.enable_prefix_caching:\n                self.prefix_cache_stats.hits += num_computed\n            if n > token_budget or",
    ),
]
