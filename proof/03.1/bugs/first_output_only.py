STORY = "A learner counts one generated token, the one at hand. From the second decode on the request is silent."
CONCEPT = "What was generated counts as known: a decode is one token behind, and samples."
EDITS = [
    (
        "return request.num_computed_tokens + num_scheduled >= request.num_tokens",
        "return request.num_computed_tokens + num_scheduled == request.num_prompt_tokens + bool(request.output_token_ids)",
    ),
]
