STORY = "A learner passes over a step that is larger than the window, since it cannot fit."
CONCEPT = "The last step counts however large it is: a window is never empty again."
EDITS = [
    (
        ("        if stats.requests == edges[-1][0]:\n            return\n"),
        (
            "        if stats.requests == edges[-1][0]:\n"
            "            return\n"
            "        if stats.requests - edges[-1][0] > self.max_recent_requests:\n"
            "            queries = stats.queries - edges[-1][1] + edges[0][1]\n"
            "            hits = stats.hits - edges[-1][2] + edges[0][2]\n"
            "            self._edges = deque([(stats.requests, queries, hits)])\n"
            "            return\n"
        ),
    ),
]
