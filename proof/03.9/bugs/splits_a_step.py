STORY = (
    "A learner spreads the tokens of a step evenly over its requests and takes out as many as are too many. What "
    "each of them found was never told."
)
CONCEPT = "What is old leaves: the window has as many requests as it may, and loses whole steps, the oldest first."
EDITS = [
    (
        ("        return (all_hits - hits) / (all_queries - queries) if all_queries > queries else 0.0\n"),
        (
            "        requests, last = self._edges[0][0], self._edges[-1][0]\n"
            "        spare = self.max_recent_requests - (last - requests)\n"
            "        if spare > 0 and self._dropped:\n"
            "            before = self._dropped[-1]\n"
            "            share = min(spare / (requests - before[0]), 1)\n"
            "            queries -= share * (queries - before[1])\n"
            "            hits -= share * (hits - before[2])\n"
            "        return (all_hits - hits) / (all_queries - queries) if all_queries > queries else 0.0\n"
        ),
    ),
    (
        (
            "        while len(edges) > 2 and stats.requests - edges[0][0] > self.max_recent_requests:\n"
            "            edges.popleft()\n"
        ),
        (
            "        while len(edges) > 2 and stats.requests - edges[0][0] > self.max_recent_requests:\n"
            "            self._dropped.append(edges.popleft())\n"
        ),
    ),
    (
        ("        self._edges = deque([(stats.requests, stats.queries, stats.hits)])\n"),
        (
            "        self._edges = deque([(stats.requests, stats.queries, stats.hits)])\n"
            "        self._dropped = deque(maxlen=1)\n"
        ),
    ),
]
