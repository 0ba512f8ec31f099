STORY = (
    "A learner lets the hit stand in for a counter at 0. After a preemption the hit of the first "
    "admission is still written there, though its blocks are gone."
)
CONCEPT = (
    "Two counters alone say whether a request has caught up; old hits, preemptions and output are in them already."
)
EDITS = [
    (
        "return request.num_computed_tokens + num_scheduled >= request.num_tokens",
        ("return (request.num_computed_tokens or request.num_cached_tokens) + num_scheduled >= request.num_tokens"),
    ),
]
