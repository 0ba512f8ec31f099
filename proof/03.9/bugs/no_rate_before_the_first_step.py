STORY = "A learner's observe() makes the attribute that hit_rate reads. Before the first step there is none."
CONCEPT = "Before the first look-up there is nothing to divide by, and the rate is 0."
EDITS = [
    (
        "        stats, edges = self.stats, self._edges\n",
        "        stats, edges = self.stats, self._edges\n        self._last = edges\n",
    ),
    (
        "        (_, queries, hits), (_, all_queries, all_hits) = self._edges[0], self._edges[-1]\n",
        "        (_, queries, hits), (_, all_queries, all_hits) = self._last[0], self._last[-1]\n",
    ),
]
