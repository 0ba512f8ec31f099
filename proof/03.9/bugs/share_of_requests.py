STORY = "A learner divides by the number of requests. Tokens for each request are no share."
CONCEPT = "A rate is one division of two sums: a request that looks up more tokens weighs more."
EDITS = [
    (
        ("        (_, queries, hits), (_, all_queries, all_hits) ="),
        ("        (queries, _, hits), (all_queries, _, all_hits) ="),
    ),
]
