STORY = "A learner clears the hit of a request that ends. What the user is told of cached tokens is 0."
CONCEPT = "A step adds to what a request has: neither an old hit nor a preemption changes the sum, or what ends it."
EDITS = [
    (
        "        return finished\n",
        "        for request in finished:\n            request.num_cached_tokens = 0\n        return finished\n",
    )
]
