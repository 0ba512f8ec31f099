STORY = (
    "An engine takes a request with output for a decode. A preempted request that computes its prompt in chunks "
    "speaks in each of them."
)
CONCEPT = "A preempted request computes its own output again, and samples only when that is done."
EDITS = [
    (
        "return request.num_computed_tokens + num_scheduled >= request.num_tokens",
        "return bool(request.output_token_ids) or request.num_computed_tokens + num_scheduled == request.num_tokens",
    ),
]
