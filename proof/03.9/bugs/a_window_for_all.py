STORY = "A learner keeps the window with the class. All pages share it, with their different limits."
CONCEPT = "Two windows on the same counts do not disturb each other, nor the counts."
EDITS = [
    (
        ("    def __init__(self, stats: PrefixCacheStats, max"),
        ("    _edges = deque()\n\n    def __init__(self, stats: PrefixCacheStats, max"),
    ),
    (
        ("        self._edges = deque([(stats.requests, stats.queries, stats.hits)])\n"),
        ("        self._edges.clear()\n        self._edges.append((stats.requests, stats.queries, stats.hits))\n"),
    ),
]
