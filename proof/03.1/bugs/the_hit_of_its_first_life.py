STORY = (
    "A learner lets the hit stand in for a counter at 0. After a preemption the hit of the first "
    "admission is still written there, though its blocks are gone."
)
CONCEPT = "To catch up is a matter of two counters: what was cached, preempted or said before is in them already."
EDITS = [
    (
        "return request.num_computed_tokens + num_scheduled >= request.num_tokens",
        ("return (request.num_computed_tokens or request.num_cached_tokens) + num_scheduled >= request.num_tokens"),
    ),
]
