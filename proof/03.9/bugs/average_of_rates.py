STORY = "A learner averages the rates of the steps. A prompt of 4 tokens weighs as much as one of 4000."
CONCEPT = "A rate is one division of two sums: a request that looks up more tokens weighs more."
EDITS = [
    (
        (
            "        (_, queries, hits), (_, all_queries, all_hits) = self._edges[0], self._edges[-1]\n"
            "        return (all_hits - hits) / (all_queries - queries) if all_queries > queries else 0.0\n"
        ),
        (
            "        edges = list(self._edges)\n"
            "        rates = [(b[2] - a[2]) / (b[1] - a[1]) for a, b in zip(edges, edges[1:])]\n"
            "        return sum(rates) / len(rates) if rates else 0.0\n"
        ),
    ),
]
