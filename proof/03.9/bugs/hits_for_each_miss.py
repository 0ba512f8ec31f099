STORY = (
    "A learner divides hits by misses. The odds are not the share, and a cache that finds nearly all has a rate "
    "far above 1."
)
CONCEPT = "A rate is one division of two sums: a request that looks up more tokens weighs more."
EDITS = [
    (
        ("        return (all_hits - hits) / (all_queries - queries) if all_queries > queries else 0.0\n"),
        (
            "        misses = (all_queries - queries) - (all_hits - hits)\n"
            "        return (all_hits - hits) / misses if misses else 0.0\n"
        ),
    ),
]
