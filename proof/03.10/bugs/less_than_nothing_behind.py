STORY = "A learner does not stop at 0: a hit beyond the pool makes the number of tokens behind it negative."
CONCEPT = "Of the two places the one counts that has more: the device may know more than the pool."
EDITS = [
    (
        "        return Lookup(max(num_tokens - num_computed_tokens, 0))\n",
        "        return Lookup(num_tokens - num_computed_tokens if num_tokens else 0)\n",
    ),
]
