STORY = (
    "A learner moves the counter to look at it, and forgets to move it back when the request catches up. "
    "The step moves it once more."
)
CONCEPT = (
    "Two counters alone say whether a request has caught up; old hits, preemptions and output are in them already."
)
EDITS = [
    (
        "return request.num_computed_tokens + num_scheduled >= request.num_tokens",
        (
            "request.num_computed_tokens += num_scheduled\n"
            "        if request.num_computed_tokens >= request.num_tokens:\n"
            "            return True\n"
            "        request.num_computed_tokens -= num_scheduled\n"
            "        return False"
        ),
    ),
]
