STORY = (
    "A learner takes a token off for each preemption, since the last one was said already. The last chunk "
    "but one samples."
)
CONCEPT = "To catch up is a matter of two counters: what was cached, preempted or said before is in them already."
EDITS = [
    (
        "return request.num_computed_tokens + num_scheduled >= request.num_tokens",
        "return request.num_computed_tokens + num_scheduled >= request.num_tokens - request.num_preemptions",
    ),
]
