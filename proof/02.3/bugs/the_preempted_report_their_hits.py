STORY = "A look for a request that was preempted writes the hit into its counter of cached tokens."
CONCEPT = "To look changes nothing: a request that is not admitted after all has taken nothing."
EDITS = [
    (
        "        return hits, len(hits)",
        "        if request.num_preemptions:\n            request.num_cached_tokens = len(hits) * self.block_size\n        return hits, len(hits)",
    )
]
