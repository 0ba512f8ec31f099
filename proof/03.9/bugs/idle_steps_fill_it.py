STORY = "A learner keeps an entry for every step and bounds their number. A quiet minute pushes every request out."
CONCEPT = "A step without a look-up pushes nothing out, and does not change the rate."
EDITS = [
    (("        if stats.requests == edges[-1][0]:\n            return\n"), ("")),
    (
        (
            "        while len(edges) > 2 and stats.requests - edges[0][0] > self.max_recent_requests:\n"
            "            edges.popleft()\n"
        ),
        (
            "        while len(edges) > 2 and stats.requests - edges[0][0] > self.max_recent_requests:\n"
            "            edges.popleft()\n"
            "        while len(edges) > self.max_recent_requests + 1:\n"
            "            edges.popleft()\n"
        ),
    ),
]
