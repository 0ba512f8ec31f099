STORY = (
    "A learner adds the prefix hit to the counter. The counter has it already, since admission put it "
    "there, so a chunk in the middle of the prompt samples."
)
CONCEPT = (
    "Two counters alone say whether a request has caught up; old hits, preemptions and output are in them already."
)
EDITS = [
    (
        "return request.num_computed_tokens + num_scheduled >= request.num_tokens",
        ("return request.num_cached_tokens + request.num_computed_tokens + num_scheduled >= request.num_tokens"),
    ),
]
