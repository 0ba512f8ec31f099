STORY = "A learner waits until the counters move, to have something to show. In a step without admission they never do."
CONCEPT = "A lookup belongs to the step that admits: a step without admission has none, whatever was counted before."
EDITS = [
    (
        ("        queries, hits = self._prefix_cache_totals()\n        stats = "),
        (
            "        queries, hits = self._prefix_cache_totals()\n"
            "        while queries == self._queries and scheduler.running:\n"
            "            queries, hits = self._prefix_cache_totals()\n"
            "        stats = "
        ),
    ),
]
