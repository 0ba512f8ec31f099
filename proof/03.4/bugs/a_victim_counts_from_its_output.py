STORY = (
    "A learner adds a preempted request's output to its counter when it comes back, as if it had been "
    "computed with the prompt."
)
CONCEPT = "In any run a step leaves the counters, the tokens, the lists and the blocks as they have to be."
EDITS = [
    (
        ("            request.num_computed_tokens += num_scheduled_tokens[request_id]\n"),
        (
            "            request.num_computed_tokens += num_scheduled_tokens[request_id]\n"
            "            if request.num_preemptions and request_id not in sampled_token_ids:\n"
            "                request.num_computed_tokens = min(request.num_tokens - 1, request.num_computed_tokens + 1)\n"
        ),
    ),
]
