STORY = (
    "A learner reads the counters when the rate is asked for. The window ends elsewhere than observe() said, and "
    "holds more than it may."
)
CONCEPT = "The rate changes when a step is observed, not when it is read, and not before."
EDITS = [
    (
        ("        (_, queries, hits), (_, all_queries, all_hits) = self._edges[0], self._edges[-1]\n"),
        ("        (_, queries, hits), all_queries, all_hits = self._edges[0], self.stats.queries, self.stats.hits\n"),
    ),
]
