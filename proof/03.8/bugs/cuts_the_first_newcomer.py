STORY = (
    "A learner cuts the first that is admitted, and not the first of the step. Beside the end of one long prompt "
    "the next is begun."
)
CONCEPT = "The end of a cut prompt leaves budget: requests that fit whole may join it, but none may pass it."
EDITS = [
    (
        ("                if output.num_scheduled_tokens:\n                    break\n"),
        (
            "                if any(r.num_computed_tokens == 0 for r in output.scheduled_requests):\n"
            "                    break\n"
        ),
    ),
]
