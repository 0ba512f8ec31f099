STORY = "A learner drops steps while the window is full, not while it is more than full."
CONCEPT = "What is old leaves: the window has as many requests as it may, and loses whole steps, the oldest first."
EDITS = [
    (
        (
            "        while len(edges) > 2 and stats.requests - edges[0][0] > self.max_recent_requests:\n"
            "            edges.popleft()\n"
        ),
        (
            "        while len(edges) > 2 and stats.requests - edges[0][0] >= self.max_recent_requests:\n"
            "            edges.popleft()\n"
        ),
    ),
]
