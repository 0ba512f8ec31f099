STORY = "A learner takes the first token of the list, since there always was one. What a step yields beyond it is lost."
CONCEPT = "A step can yield several tokens; all of them count, in their order."
EDITS = [
    (
        ("            for token_id in sampled_token_ids.get(request_id, ()):\n"),
        ("            for token_id in sampled_token_ids.get(request_id, ())[:1]:\n"),
    ),
]
