STORY = (
    "A learner has read about speculative decoding and moves the counter by the tokens that came out. What was "
    "sampled is not yet computed."
)
CONCEPT = "However many tokens come out, the counter moves by what was computed."
EDITS = [
    (
        ("            request.num_computed_tokens += num_scheduled_tokens[request_id]\n"),
        (
            "            num_sampled = len(sampled_token_ids.get(request_id, ()))\n"
            "            request.num_computed_tokens += max(num_scheduled_tokens[request_id], num_sampled)\n"
        ),
    ),
]
