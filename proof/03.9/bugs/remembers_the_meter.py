STORY = "A learner keeps the object and not its numbers. It is the same object for ever, so nothing ever seems new."
CONCEPT = "The rate changes when a step is observed, not when it is read, and not before."
EDITS = [
    (
        ("        self._edges = deque([(stats.requests, stats.queries, stats.hits)])\n"),
        ("        self._edges = deque([stats])\n"),
    ),
    (("        if stats.requests == edges[-1][0]:"), ("        if stats.requests == edges[-1].requests:")),
    (("        edges.append((stats.requests, stats.queries, stats.hits))\n"), ("        edges.append(stats)\n")),
    (
        (
            "        while len(edges) > 2 and stats.requests - edges[0][0] > self.max_recent_requests:\n"
            "            edges.popleft()\n"
        ),
        (
            "        while len(edges) > 2 and stats.requests - edges[0].requests > self.max_recent_requests:\n"
            "            edges.popleft()\n"
        ),
    ),
    (
        ("        (_, queries, hits), (_, all_queries, all_hits) = self._edges[0], self._edges[-1]\n"),
        (
            "        queries, hits = self._edges[0].queries, self._edges[0].hits\n"
            "        all_queries, all_hits = self._edges[-1].queries, self._edges[-1].hits\n"
        ),
    ),
]
