STORY = (
    "A learner compares with the prompt, as in the first step of a request. Decodes are silent, so a request says"
    " one token and hangs."
)
CONCEPT = "What was generated counts as known: a decode is one token behind, and samples."
EDITS = [
    (
        "return request.num_computed_tokens + num_scheduled >= request.num_tokens",
        "return request.num_computed_tokens + num_scheduled == request.num_prompt_tokens",
    ),
]
