STORY = "A learner copies everything back and still says that nothing was found: it is computed once more."
CONCEPT = "It comes back to where it was: the tokens in the CPU pool need no computing."
EDITS = [
    (
        "        return hits, num_hit + self._num_loadable_tokens(request, num_hit)\n",
        "        return hits, num_hit\n",
    ),
]
