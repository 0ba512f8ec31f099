STORY = (
    "A learner knows a decode by its single token. A prompt that is computed as a whole never yields its first token."
)
CONCEPT = "An inner chunk predicts a token that is known already; only the one that catches up samples."
EDITS = [
    (
        "return request.num_computed_tokens + num_scheduled >= request.num_tokens",
        "return num_scheduled == 1",
    ),
]
