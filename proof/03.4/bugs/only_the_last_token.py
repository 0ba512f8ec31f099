STORY = "A learner takes the last token of the list, as if the others were its history."
CONCEPT = "A step can yield several tokens; all of them count, in their order."
EDITS = [
    (
        ("            for token_id in sampled_token_ids.get(request_id, ()):\n"),
        ("            for token_id in sampled_token_ids.get(request_id, ())[-1:]:\n"),
    ),
]
