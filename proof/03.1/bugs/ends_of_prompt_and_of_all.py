STORY = (
    "A learner lets the end of the prompt speak, and the end of everything. After a preemption the end of the "
    "prompt speaks a second time."
)
CONCEPT = "A preempted request computes its own output again, and samples only when that is done."
EDITS = [
    (
        "return request.num_computed_tokens + num_scheduled >= request.num_tokens",
        (
            "after = request.num_computed_tokens + num_scheduled\n"
            "        return after in (request.num_prompt_tokens, request.num_tokens)"
        ),
    ),
]
