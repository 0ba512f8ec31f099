STORY = (
    "A learner adds up the prefix hits of the requests in the step. A request keeps that number for life, so it "
    "counts in each of its steps."
)
CONCEPT = "A lookup belongs to the step that admits: a step without admission has none, whatever was counted before."
EDITS = [
    (
        (
            "            prefix_cache_queries=queries - self._queries,\n"
            "            prefix_cache_hits=hits - self._hits,\n"
        ),
        (
            "            prefix_cache_queries=queries - self._queries,\n"
            "            prefix_cache_hits=sum(request.num_cached_tokens for request in output.scheduled_requests),\n"
        ),
    ),
]
