STORY = "A learner removes duplicates on the way through a set, and tokens come in another order."
CONCEPT = "A step can yield several tokens; all of them count, in their order."
EDITS = [
    (
        ("            for token_id in sampled_token_ids.get(request_id, ()):\n"),
        ("            for token_id in sorted(set(sampled_token_ids.get(request_id, ())), reverse=True):\n"),
    ),
]
