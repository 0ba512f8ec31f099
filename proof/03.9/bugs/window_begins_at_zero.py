STORY = "A learner begins the window at 0. All that was ever counted is taken for one large first step."
CONCEPT = "What was looked up before it was made is in no window."
EDITS = [
    (
        ("        self._edges = deque([(stats.requests, stats.queries, stats.hits)])\n"),
        ("        self._edges = deque([(0, 0, 0)])\n"),
    ),
]
