STORY = "A learner rounds what is in the pool down to whole blocks. What a block had begun is computed twice."
CONCEPT = "It comes back to where it was: the tokens in the CPU pool need no computing."
EDITS = [
    (
        "        return hits, num_hit + self._num_loadable_tokens(request, num_hit)\n",
        (
            "        num_found = num_hit + self._num_loadable_tokens(request, num_hit)\n"
            "        return hits, num_found // self.block_size * self.block_size\n"
        ),
    ),
]
