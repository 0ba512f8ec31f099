STORY = (
    "A learner takes a token off for each preemption, since the last one was said already. The last chunk "
    "but one samples."
)
CONCEPT = (
    "Two counters alone say whether a request has caught up; old hits, preemptions and output are in them already."
)
EDITS = [
    (
        "return request.num_computed_tokens + num_scheduled >= request.num_tokens",
        "return request.num_computed_tokens + num_scheduled >= request.num_tokens - request.num_preemptions",
    ),
]
