STORY = "A learner keeps the last reading on the scheduler. A second reader gets what the first one left: nothing."
CONCEPT = "A reader may not change what another one sees: the meter stays, and every reader has its own account."
EDITS = [
    (
        ("        self._queries, self._hits = self._prefix_cache_totals()\n"),
        ("        scheduler._last_reading = self._prefix_cache_totals()\n"),
    ),
    (
        (
            "            prefix_cache_queries=queries - self._queries,\n"
            "            prefix_cache_hits=hits - self._hits,\n"
        ),
        (
            "            prefix_cache_queries=queries - scheduler._last_reading[0],\n"
            "            prefix_cache_hits=hits - scheduler._last_reading[1],\n"
        ),
    ),
    (
        ("        self._queries, self._hits = queries, hits\n        return stats\n"),
        ("        scheduler._last_reading = queries, hits\n        return stats\n"),
    ),
]
