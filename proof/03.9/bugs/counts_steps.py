STORY = "A learner gives the window a length in steps, with a bounded deque. Steps admit one request or a hundred."
CONCEPT = "What is old leaves: the window has as many requests as it may, and loses whole steps, the oldest first."
EDITS = [
    (
        ("        self._edges = deque([(stats.requests, stats.queries, stats.hits)])\n"),
        (
            "        start = [(stats.requests, stats.queries, stats.hits)]\n"
            "        self._edges = deque(start, maxlen=max_recent_requests + 1)\n"
        ),
    ),
    (
        (
            "        while len(edges) > 2 and stats.requests - edges[0][0] > self.max_recent_requests:\n"
            "            edges.popleft()\n"
        ),
        (""),
    ),
]
