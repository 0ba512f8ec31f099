STORY = "A learner counts the sampled token as computed. Its K and V are never written."
CONCEPT = "A sampled token is known and not yet computed: the request is one behind again."
EDITS = [
    (
        ("                request.append_output_token(token_id)\n"),
        ("                request.append_output_token(token_id)\n                request.num_computed_tokens += 1\n"),
    ),
]
