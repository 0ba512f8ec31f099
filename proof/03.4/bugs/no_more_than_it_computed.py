STORY = (
    "A learner takes as many tokens as were scheduled, since each row of logits gives one. A decode that "
    "brings three keeps one."
)
CONCEPT = "A step can yield several tokens; all of them count, in their order."
EDITS = [
    (
        ("            for token_id in sampled_token_ids.get(request_id, ()):\n"),
        (
            "            count = num_scheduled_tokens[request_id]\n"
            "            for token_id in list(sampled_token_ids.get(request_id, ()))[: max(count, 1)]:\n"
        ),
    ),
]
