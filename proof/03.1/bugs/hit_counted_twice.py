STORY = (
    "A learner adds the prefix hit to the counter. The counter has it already, since admission put it "
    "there, so a chunk in the middle of the prompt samples."
)
CONCEPT = "To catch up is a matter of two counters: what was cached, preempted or said before is in them already."
EDITS = [
    (
        "return request.num_computed_tokens + num_scheduled >= request.num_tokens",
        ("return request.num_cached_tokens + request.num_computed_tokens + num_scheduled >= request.num_tokens"),
    ),
]
