STORY = (
    "A learner bounds the list of steps by a length of its own. Steps that belong to the window are dropped, and "
    "nobody sees it."
)
CONCEPT = "A meter that is made without a number has a window of 1000 requests."
EDITS = [
    (
        "        self._edges = deque([(stats.requests, stats.queries, stats.hits)])\n",
        "        self._edges = deque([(stats.requests, stats.queries, stats.hits)], maxlen=100)\n",
    ),
]
