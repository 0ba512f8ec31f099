STORY = "An admission without a hit is not counted: the rate is that of the lucky ones."
CONCEPT = "A first admission and one after a preemption are counted apart; the sender hears of the first."
EDITS = [
    (
        "        if self.kv_cache_manager.enable_prefix_caching:\n",
        "        if self.kv_cache_manager.enable_prefix_caching and num_hits:\n",
    ),
]
