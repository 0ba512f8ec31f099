STORY = "A learner drops a step whenever it observes at the limit, with something new or without."
CONCEPT = "A step without a look-up pushes nothing out, and does not change the rate."
EDITS = [
    (("        if stats.requests == edges[-1][0]:\n            return\n"), ("")),
    (
        (
            "        edges.append((stats.requests, stats.queries, stats.hits))\n"
            "        while len(edges) > 2 and stats.requests - edges[0][0] > self.max_recent_requests:\n"
            "            edges.popleft()\n"
        ),
        (
            "        if stats.requests > edges[-1][0]:\n"
            "            edges.append((stats.requests, stats.queries, stats.hits))\n"
            "        elif len(edges) > 2 and edges[-1][0] - edges[0][0] >= self.max_recent_requests:\n"
            "            edges.popleft()\n"
            "        while len(edges) > 2 and stats.requests - edges[0][0] > self.max_recent_requests:\n"
            "            edges.popleft()\n"
        ),
    ),
]
