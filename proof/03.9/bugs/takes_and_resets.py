STORY = (
    "A learner takes the counts out, as vLLM's make_prefix_cache_stats does where one reader owns them. Here "
    "others read them, too."
)
CONCEPT = "A reader may not change what another one sees: the meter stays, and every reader has its own account."
EDITS = [
    (
        ("        self._queries, self._hits = queries, hits\n        return stats\n"),
        (
            "        for counts in (scheduler.prefix_cache_stats, scheduler.preempted_prefix_cache_stats):\n"
            "            counts.requests = counts.queries = counts.hits = 0\n"
            "        self._queries = self._hits = 0\n"
            "        return stats\n"
        ),
    ),
]
