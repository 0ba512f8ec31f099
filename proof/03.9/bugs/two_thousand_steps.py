STORY = "A learner bounds the memory of the window, far above the default. Whoever asks for more gets less."
CONCEPT = "A window may have thousands of steps: none leaves before there are more requests than it may have."
EDITS = [
    (
        "        self._edges = deque([(stats.requests, stats.queries, stats.hits)])\n",
        "        self._edges = deque([(stats.requests, stats.queries, stats.hits)], maxlen=2000)\n",
    ),
]
