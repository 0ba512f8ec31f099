STORY = "A learner compares with `is`, which Python grants for small numbers alone."
CONCEPT = "An inner chunk predicts a token that is known already; only the one that catches up samples."
EDITS = [
    (
        ">= request.num_tokens",
        "is request.num_tokens",
    ),
]
