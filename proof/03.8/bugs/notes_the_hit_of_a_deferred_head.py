STORY = "A learner keeps a note of the hit at the lookup, before it is known whether the head is admitted."
CONCEPT = "A refusal changes nothing: a request that does not fit is as it was, its head start not yet taken."
EDITS = [
    (
        "            if n + num_charged > token_budget:\n",
        "            request.num_cached_tokens = num_computed\n            if n + num_charged > token_budget:\n",
    ),
]
