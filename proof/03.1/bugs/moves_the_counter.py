STORY = (
    "A learner moves the counter to look at it, and forgets to move it back when the request catches up. "
    "The step moves it once more."
)
CONCEPT = "To catch up is a matter of two counters: what was cached, preempted or said before is in them already."
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
