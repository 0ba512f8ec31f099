STORY = "A step that computes nothing gets zeros and no look at the meter. What was counted in a step that nobody recorded turns up one record too late."
CONCEPT = "After any run the figures of a step are those of that step, and to look has changed nothing."
EDITS = [
    (
        "            prefix_cache_queries=queries - self._queries,\n            prefix_cache_hits=hits - self._hits,\n",
        "            prefix_cache_queries=queries - self._queries if output.has_work else 0,\n            prefix_cache_hits=hits - self._hits if output.has_work else 0,\n",
    ),
    (
        "        self._queries, self._hits = queries, hits\n        return stats\n",
        "        if output.has_work:\n            self._queries, self._hits = queries, hits\n        return stats\n",
    ),
]
