STORY = "A learner averages since the beginning. After a day the rate does not move, whatever the cache does."
CONCEPT = "What is old leaves: the window has as many requests as it may, and loses whole steps, the oldest first."
EDITS = [
    (
        (
            "        while len(edges) > 2 and stats.requests - edges[0][0] > self.max_recent_requests:\n"
            "            edges.popleft()\n"
        ),
        (""),
    ),
]
