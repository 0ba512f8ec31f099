STORY = (
    "A learner counts from zero and finds the last token one too early. The chunk that ends one token short "
    "speaks as well."
)
CONCEPT = "An inner chunk predicts a token that is known already; only the one that catches up samples."
EDITS = [
    (
        "return request.num_computed_tokens + num_scheduled >= request.num_tokens",
        "return request.num_computed_tokens + num_scheduled >= request.num_tokens - 1",
    ),
]
