STORY = "When it is made the recorder reads the meter of newcomers alone. One that is made after a victim came back has that lookup in its first record."
CONCEPT = "What was counted before a recorder was made is none of its steps'."
EDITS = [
    (
        "        self._queries, self._hits = self._prefix_cache_totals()\n\n",
        "        first = scheduler.prefix_cache_stats\n        self._queries, self._hits = first.queries, first.hits\n\n",
    )
]
