STORY = "A learner divides without a look at the divisor. The page falls over before the first request."
CONCEPT = "Before the first look-up there is nothing to divide by, and the rate is 0."
EDITS = [
    (
        ("        return (all_hits - hits) / (all_queries - queries) if all_queries > queries else 0.0\n"),
        ("        return (all_hits - hits) / (all_queries - queries)\n"),
    ),
]
