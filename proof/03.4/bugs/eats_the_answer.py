STORY = (
    "A learner takes the tokens out of the lists that it is given. The engine, which streams them, finds them empty."
)
CONCEPT = "What the call is given stays as it is: the output of schedule() and the sampled tokens."
EDITS = [
    (
        ("            for token_id in sampled_token_ids.get(request_id, ()):\n"),
        (
            "            tokens = sampled_token_ids.get(request_id, [])\n"
            "            while tokens:\n"
            "                token_id = tokens.pop(0)\n"
        ),
    ),
]
