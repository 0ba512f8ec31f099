STORY = "A learner compares tokens with a limit that is meant for requests. The window is the last prompt."
CONCEPT = "What is old leaves: the window has as many requests as it may, and loses whole steps, the oldest first."
EDITS = [
    (
        (
            "        while len(edges) > 2 and stats.requests - edges[0][0] > self.max_recent_requests:\n"
            "            edges.popleft()\n"
        ),
        (
            "        while len(edges) > 2 and stats.queries - edges[0][1] > self.max_recent_requests:\n"
            "            edges.popleft()\n"
        ),
    ),
]
