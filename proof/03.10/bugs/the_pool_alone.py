STORY = "A learner asks the pool first; whoever is in it gets no hits, and takes new blocks for everything."
CONCEPT = "What the prefix cache finds is not copied: only what lies behind it comes from the CPU pool."
EDITS = [
    (
        "        return hits, num_hit + self._num_loadable_tokens(request, num_hit)\n",
        (
            "        num_loadable = self._num_loadable_tokens(request, 0)\n"
            "        return ([], num_loadable) if num_loadable else (hits, num_hit)\n"
        ),
    ),
]
