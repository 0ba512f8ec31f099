STORY = "A learner divides whole numbers with //. A rate below 1 is 0."
CONCEPT = "A rate is one division of two sums: a request that looks up more tokens weighs more."
EDITS = [
    (
        ("        return (all_hits - hits) / (all_queries - queries) if all_queries > queries else 0.0\n"),
        ("        return (all_hits - hits) // (all_queries - queries) if all_queries > queries else 0.0\n"),
    ),
]
