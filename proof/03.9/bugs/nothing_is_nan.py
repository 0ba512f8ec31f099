STORY = "A learner returns a value that is no number. It is not equal to itself, and no average with it is a number."
CONCEPT = "Before the first look-up there is nothing to divide by, and the rate is 0."
EDITS = [
    (
        ("        return (all_hits - hits) / (all_queries - queries) if all_queries > queries else 0.0\n"),
        ('        return (all_hits - hits) / (all_queries - queries) if all_queries > queries else float("nan")\n'),
    ),
]
