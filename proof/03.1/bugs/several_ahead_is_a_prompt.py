STORY = (
    "A learner takes whoever is more than one behind for a prompt. A decode that is several tokens behind "
    "samples only if it is in its prompt."
)
CONCEPT = (
    "Two counters alone say whether a request has caught up; old hits, preemptions and output are in them already."
)
EDITS = [
    (
        "return request.num_computed_tokens + num_scheduled >= request.num_tokens",
        (
            "end = request.num_computed_tokens + num_scheduled\n"
            "        if num_scheduled > 1 and request.num_computed_tokens > request.num_prompt_tokens:\n"
            "            return False\n"
            "        return end >= request.num_tokens"
        ),
    ),
]
