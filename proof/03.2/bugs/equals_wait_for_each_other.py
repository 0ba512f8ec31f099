STORY = (
    "A learner does not admit two equal prompts in one step, since the second could not find the first "
    "yet. It can: blocks are published when they get slots."
)
CONCEPT = "The cache is asked when a request stands at the head: those admitted before it may have changed the answer."
EDITS = [
    (
        "            if n > token_budget or",
        (
            "            if any(other.prompt_token_ids == request.prompt_token_ids for other in output.scheduled_requests):\n"
            "                break\n"
            "            if n > token_budget or"
        ),
    ),
]
