STORY = "A learner always keeps two steps, to be safe. A large one is never alone."
CONCEPT = "The last step counts however large it is: a window is never empty again."
EDITS = [
    (
        (
            "        while len(edges) > 2 and stats.requests - edges[0][0] > self.max_recent_requests:\n"
            "            edges.popleft()\n"
        ),
        (
            "        while len(edges) > 3 and stats.requests - edges[0][0] > self.max_recent_requests:\n"
            "            edges.popleft()\n"
        ),
    ),
]
