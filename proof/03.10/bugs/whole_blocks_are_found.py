STORY = "A learner rounds what is in the pool down to whole blocks. What a block had begun is computed twice."
CONCEPT = "It comes back to where it was: the tokens in the CPU pool need no computing."
EDITS = [
    (
        "        return hits, max(num_hit, self._swapped.get(request.request_id, 0))\n",
        (
            "        num_swapped = self._swapped.get(request.request_id, 0) // self.block_size * self.block_size\n"
            "        return hits, max(num_hit, num_swapped)\n"
        ),
    ),
]
