STORY = "A learner trusts only what is in both places."
CONCEPT = "It comes back to where it was: the tokens in the CPU pool need no computing."
EDITS = [
    (
        "        return hits, num_hit + self._num_loadable_tokens(request, num_hit)\n",
        (
            "        num_loadable = self._num_loadable_tokens(request, 0)\n"
            "        return hits, min(num_hit, num_loadable) if num_loadable else num_hit\n"
        ),
    ),
]
