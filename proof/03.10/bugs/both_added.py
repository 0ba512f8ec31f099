STORY = "A learner adds the hit to what is in the pool; both begin at the first token."
CONCEPT = "What the prefix cache finds is not copied: only what lies behind it comes from the CPU pool."
EDITS = [
    (
        "        return hits, max(num_hit, self._swapped.get(request.request_id, 0))\n",
        "        return hits, min(num_hit + self._swapped.get(request.request_id, 0), request.num_tokens - 1)\n",
    ),
]
