STORY = "A learner remembers one of the two readings. Hits come again in every step, more than were looked up."
CONCEPT = "A lookup belongs to the step that admits: a step without admission has none, whatever was counted before."
EDITS = [
    (
        ("        self._queries, self._hits = queries, hits\n        return stats\n"),
        ("        self._queries = queries\n        return stats\n"),
    ),
]
