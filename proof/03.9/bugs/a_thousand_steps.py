STORY = "A learner bounds the memory of the window at 1,000 edges. The default window has 1,000 steps, and so 1,001."
CONCEPT = "A meter that is made without a number has a window of 1000 requests."
EDITS = [
    (
        "        self._edges = deque([(stats.requests, stats.queries, stats.hits)])\n",
        "        self._edges = deque([(stats.requests, stats.queries, stats.hits)], maxlen=1000)\n",
    ),
]
