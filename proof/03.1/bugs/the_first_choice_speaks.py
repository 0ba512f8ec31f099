STORY = "A learner lets only the first choice of a prompt sample. The other choices never say a word."
CONCEPT = (
    "Two counters alone say whether a request has caught up; old hits, preemptions and output are in them already."
)
EDITS = [
    (
        "return request.num_computed_tokens + num_scheduled >= request.num_tokens",
        "return request.choice_index == 0 and request.num_computed_tokens + num_scheduled >= request.num_tokens",
    ),
]
