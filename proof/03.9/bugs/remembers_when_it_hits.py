STORY = (
    "A learner remembers the readings in steps that found something. The lookups of steps that missed are "
    "counted again later."
)
CONCEPT = "A victim that comes back looks up again: the figures have that lookup, too."
EDITS = [
    (
        ("        self._queries, self._hits = queries, hits\n        return stats\n"),
        (
            "        if hits > self._hits:\n"
            "            self._queries, self._hits = queries, hits\n"
            "        return stats\n"
        ),
    ),
]
