STORY = "A learner drops steps until the rest fits. One step with more requests than the limit empties the window."
CONCEPT = "The last step counts however large it is: a window is never empty again."
EDITS = [
    (
        (
            "        while len(edges) > 2 and stats.requests - edges[0][0] > self.max_recent_requests:\n"
            "            edges.popleft()\n"
        ),
        (
            "        while len(edges) > 1 and stats.requests - edges[0][0] > self.max_recent_requests:\n"
            "            edges.popleft()\n"
        ),
    ),
]
