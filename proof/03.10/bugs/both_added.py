STORY = "A learner adds the hit to what is in the pool; both begin at the first token."
CONCEPT = "What the prefix cache finds is not copied: only what lies behind it comes from the CPU pool."
EDITS = [
    (
        "        return Lookup(max(num_tokens - num_computed_tokens, 0))\n",
        (
            "        num_left = request.num_tokens - 1 - num_computed_tokens\n"
            "        return Lookup(min(num_tokens, num_left))\n"
        ),
    ),
]
