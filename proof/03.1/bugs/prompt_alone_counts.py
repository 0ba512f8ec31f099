STORY = (
    "An engine tells prefill from decode by the length of the prompt. After a preemption the request speaks in "
    "the middle of its own output."
)
CONCEPT = "A preempted request computes its own output again, and samples only when that is done."
EDITS = [
    (
        "return request.num_computed_tokens + num_scheduled >= request.num_tokens",
        "return request.num_computed_tokens + num_scheduled >= request.num_prompt_tokens",
    ),
]
