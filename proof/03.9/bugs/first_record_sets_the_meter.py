STORY = "A learner takes the first reading in the first record. Its lookups are lost."
CONCEPT = "A lookup belongs to the step that admits: a step without admission has none, whatever was counted before."
EDITS = [
    (("        self._queries, self._hits = self._prefix_cache_totals()\n"), ("        self._queries = None\n")),
    (
        ("        queries, hits = self._prefix_cache_totals()\n        stats = "),
        (
            "        if self._queries is None:\n"
            "            self._queries, self._hits = self._prefix_cache_totals()\n"
            "        queries, hits = self._prefix_cache_totals()\n"
            "        stats = "
        ),
    ),
]
