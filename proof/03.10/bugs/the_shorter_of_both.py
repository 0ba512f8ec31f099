STORY = "A learner trusts only what is in both places."
CONCEPT = "It comes back to where it was: the tokens in the CPU pool need no computing."
EDITS = [
    (
        "        return hits, max(num_hit, self._swapped.get(request.request_id, 0))\n",
        "        return hits, min(num_hit, self._swapped.get(request.request_id, num_hit))\n",
    ),
]
