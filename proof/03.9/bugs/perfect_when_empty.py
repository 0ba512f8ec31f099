STORY = "A learner calls a cache that nobody asked perfect. A page that warns of low rates stays quiet."
CONCEPT = "Before the first look-up there is nothing to divide by, and the rate is 0."
EDITS = [
    (
        ("        return (all_hits - hits) / (all_queries - queries) if all_queries > queries else 0.0\n"),
        ("        return (all_hits - hits) / (all_queries - queries) if all_queries > queries else 1.0\n"),
    ),
]
