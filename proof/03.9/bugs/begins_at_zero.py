STORY = (
    "A learner begins at 0, as if the engine had begun with the recorder. The first step of a new page shows a month."
)
CONCEPT = "What was counted before a recorder was made is none of its steps'."
EDITS = [
    (
        ("        self._queries, self._hits = self._prefix_cache_totals()\n"),
        ("        self._queries, self._hits = 0, 0\n"),
    ),
]
