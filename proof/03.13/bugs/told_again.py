STORY = "num_cached_tokens is set at every admission: the sender hears of a hit in its own output."
CONCEPT = "A first admission and one after a preemption are counted apart; the sender hears of the first."
EDITS = [
    (
        "            stats = self.prefix_cache_stats\n            request.num_cached_tokens = num_hits\n",
        "            stats = self.prefix_cache_stats\n        request.num_cached_tokens = num_hits\n",
    ),
]
