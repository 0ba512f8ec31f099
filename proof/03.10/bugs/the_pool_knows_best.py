STORY = "A learner lets the pool decide whenever it has something, even less than the device."
CONCEPT = "Of the two places the one counts that has more: the device may know more than the pool."
EDITS = [
    (
        "        return hits, num_hit + self._num_loadable_tokens(request, num_hit)\n",
        (
            "        num_loadable = self._num_loadable_tokens(request, 0)\n"
            "        return hits, num_loadable or num_hit\n"
        ),
    ),
]
