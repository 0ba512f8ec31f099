STORY = "A learner empties the window when it is full. The rate jumps, and says for a while what one step did."
CONCEPT = "What is old leaves: the window has as many requests as it may, and loses whole steps, the oldest first."
EDITS = [
    (
        (
            "        while len(edges) > 2 and stats.requests - edges[0][0] > self.max_recent_requests:\n"
            "            edges.popleft()\n"
        ),
        (
            "        if stats.requests - edges[0][0] > self.max_recent_requests:\n"
            "            while len(edges) > 2:\n"
            "                edges.popleft()\n"
        ),
    ),
]
