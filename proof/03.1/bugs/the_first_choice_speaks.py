STORY = "A learner lets only the first choice of a prompt sample. The other choices never say a word."
CONCEPT = "To catch up is a matter of two counters: what was cached, preempted or said before is in them already."
EDITS = [
    (
        "return request.num_computed_tokens + num_scheduled >= request.num_tokens",
        "return request.choice_index == 0 and request.num_computed_tokens + num_scheduled >= request.num_tokens",
    ),
]
