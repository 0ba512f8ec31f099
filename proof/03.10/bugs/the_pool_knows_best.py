STORY = "A learner lets the pool decide whenever it has something, even less than the device."
CONCEPT = "Of the two places the one counts that has more: the device may know more than the pool."
EDITS = [
    (
        "        return hits, max(num_hit, self._swapped.get(request.request_id, 0))\n",
        "        return hits, self._swapped.get(request.request_id, num_hit)\n",
    ),
]
