STORY = "A learner asks the pool first; whoever is in it gets no hits, and takes new blocks for everything."
CONCEPT = "What the prefix cache finds is not copied: only what lies behind it comes from the CPU pool."
EDITS = [
    (
        "        return hits, max(num_hit, self._swapped.get(request.request_id, 0))\n",
        (
            "        num_swapped = self._swapped.get(request.request_id)\n"
            "        return (hits, num_hit) if num_swapped is None else ([], num_swapped)\n"
        ),
    ),
]
