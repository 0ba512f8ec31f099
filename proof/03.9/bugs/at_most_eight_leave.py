STORY = (
    "A learner lets a few steps leave at a time, so that a call never takes long. When many come at once, the "
    "window is too large."
)
CONCEPT = "What is old leaves: the window has as many requests as it may, and loses whole steps, the oldest first."
EDITS = [
    (
        "        while len(edges) > 2 and stats.requests - edges[0][0] > self.max_recent_requests:\n            edges.popleft()\n",
        "        for _ in range(8):\n            if len(edges) > 2 and stats.requests - edges[0][0] > self.max_recent_requests:\n                edges.popleft()\n",
    ),
]
