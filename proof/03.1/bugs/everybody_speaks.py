STORY = (
    "A learner samples one token for each scheduled request, as in a loop without chunks. The second chunk starts"
    " with a token that is not in the prompt."
)
CONCEPT = "An inner chunk predicts a token that is known already; only the one that catches up samples."
EDITS = [
    (
        "return request.num_computed_tokens + num_scheduled >= request.num_tokens",
        "return True",
    ),
]
