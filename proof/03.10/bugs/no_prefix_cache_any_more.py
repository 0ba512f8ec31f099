STORY = "A learner looks into the pool and forgets the prefix cache for everybody else."
CONCEPT = "A request that was never swapped out is treated as usual, with its hits and further chunks."
EDITS = [
    (
        "        return hits, num_hit + self._num_loadable_tokens(request, num_hit)\n",
        (
            "        num_loadable = self._num_loadable_tokens(request, num_hit)\n"
            "        return (hits, num_hit + num_loadable) if num_loadable else ([], 0)\n"
        ),
    ),
]
