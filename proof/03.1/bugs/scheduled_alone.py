STORY = "A learner forgets what earlier chunks have computed. Only a prompt that fits into one step speaks."
CONCEPT = "An inner chunk predicts a token that is known already; only the one that catches up samples."
EDITS = [
    (
        "return request.num_computed_tokens + num_scheduled >= request.num_tokens",
        "return num_scheduled == request.num_tokens",
    ),
]
