STORY = "A learner skips a request without a sampled token. An inner chunk is computed again and again."
CONCEPT = "What was scheduled is computed now: the counter moves by the chunk, whether or not a token came out."
EDITS = [
    (
        ("            request.num_computed_tokens += num_scheduled_tokens[request_id]\n"),
        (
            "            if request_id in sampled_token_ids:\n"
            "                request.num_computed_tokens += num_scheduled_tokens[request_id]\n"
        ),
    ),
]
