STORY = (
    "A learner lets the counter be at least the prefix hit. A request that came back and found less skips "
    "tokens that nobody computed."
)
CONCEPT = "A step adds to what a request has: neither an old hit nor a preemption changes the sum, or what ends it."
EDITS = [
    (
        ("            request.num_computed_tokens += num_scheduled_tokens[request_id]\n"),
        (
            "            request.num_computed_tokens += num_scheduled_tokens[request_id]\n"
            "            request.num_computed_tokens = max(request.num_computed_tokens, request.num_cached_tokens)\n"
        ),
    ),
]
