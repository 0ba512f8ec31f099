STORY = "A learner reads the meter at the beginning and never again. Each step has all since then."
CONCEPT = "A lookup belongs to the step that admits: a step without admission has none, whatever was counted before."
EDITS = [
    (("        self._queries, self._hits = queries, hits\n        return stats\n"), ("        return stats\n")),
]
