STORY = "A learner wants to keep the rate in an attribute, and gives it the name of the property that returns it."
CONCEPT = "A rate is one division of two sums: a request that looks up more tokens weighs more."
EDITS = [
    (
        ("        return (all_hits - hits) / (all_queries - queries) if all_queries > queries else 0.0\n"),
        ("        return self.hit_rate if all_queries > queries else 0.0\n"),
    ),
]
