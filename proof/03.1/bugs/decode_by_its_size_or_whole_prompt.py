STORY = (
    "A learner adds a special case for decodes: one token means decode. A last chunk or an inner chunk of one "
    "token is taken for a decode."
)
CONCEPT = "An inner chunk predicts a token that is known already; only the one that catches up samples."
EDITS = [
    (
        "return request.num_computed_tokens + num_scheduled >= request.num_tokens",
        "return num_scheduled == 1 or request.num_computed_tokens + num_scheduled == request.num_tokens",
    ),
]
