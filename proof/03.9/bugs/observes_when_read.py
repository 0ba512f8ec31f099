STORY = "A learner calls observe() in hit_rate, so that nobody can forget it. Each look at the page cuts a step in two."
CONCEPT = "The rate changes when a step is observed, not when it is read, and not before."
EDITS = [
    (
        ("        (_, queries, hits), (_, all_queries, all_hits) = self._edges[0], self._edges[-1]\n"),
        (
            "        self.observe()\n"
            "        (_, queries, hits), (_, all_queries, all_hits) = self._edges[0], self._edges[-1]\n"
        ),
    ),
]
