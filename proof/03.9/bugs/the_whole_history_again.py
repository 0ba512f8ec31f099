STORY = (
    "A learner keeps every step and adds them up at each call, from the first one on. A long run gets slower and "
    "slower."
)
CONCEPT = "A long run costs no more a step than a short one: what is long gone is not looked at again."
EDITS = [
    (
        "        self._edges = deque([(stats.requests, stats.queries, stats.hits)])\n",
        "        self._edges = deque([(stats.requests, stats.queries, stats.hits)])\n        self._all = []\n",
    ),
    (
        "        edges.append((stats.requests, stats.queries, stats.hits))\n",
        "        edges.append((stats.requests, stats.queries, stats.hits))\n        self._all.append(stats.requests - edges[-2][0])\n        assert sum(number for number in self._all) <= stats.requests\n",
    ),
]
