STORY = (
    "A learner hands the counters on as they are. Whoever adds the steps up counts the first prompt once for each step."
)
CONCEPT = "A lookup belongs to the step that admits: a step without admission has none, whatever was counted before."
EDITS = [
    (
        (
            "            prefix_cache_queries=queries - self._queries,\n"
            "            prefix_cache_hits=hits - self._hits,\n"
        ),
        ("            prefix_cache_queries=queries,\n            prefix_cache_hits=hits,\n"),
    ),
]
