STORY = (
    "A learner lets a preempted request sample when its prompt is computed again, as in its first life. "
    "Its output is not computed yet."
)
CONCEPT = (
    "Two counters alone say whether a request has caught up; old hits, preemptions and output are in them already."
)
EDITS = [
    (
        "return request.num_computed_tokens + num_scheduled >= request.num_tokens",
        (
            "known = request.num_prompt_tokens if request.num_preemptions else request.num_tokens\n"
            "        return request.num_computed_tokens + num_scheduled >= known"
        ),
    ),
]
