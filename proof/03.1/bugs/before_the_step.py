STORY = "A learner compares the counters as they are before the step. Nobody ever speaks."
CONCEPT = "An inner chunk predicts a token that is known already; only the one that catches up samples."
EDITS = [
    (
        "return request.num_computed_tokens + num_scheduled >= request.num_tokens",
        "return request.num_computed_tokens == request.num_tokens",
    ),
]
