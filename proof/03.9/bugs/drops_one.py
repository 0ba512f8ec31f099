STORY = "A learner drops one old step for one new one. Steps are not of one size, and the window outgrows its limit."
CONCEPT = "What is old leaves: the window has as many requests as it may, and loses whole steps, the oldest first."
EDITS = [
    (
        (
            "        while len(edges) > 2 and stats.requests - edges[0][0] > self.max_recent_requests:\n"
            "            edges.popleft()\n"
        ),
        (
            "        if len(edges) > 2 and stats.requests - edges[0][0] > self.max_recent_requests:\n"
            "            edges.popleft()\n"
        ),
    ),
]
