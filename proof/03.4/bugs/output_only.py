STORY = "MinivLLM appended to one of two lists. The request never knows more than its prompt."
CONCEPT = "A sampled token is known and not yet computed: the request is one behind again."
EDITS = [
    (
        ("                request.append_output_token(token_id)\n"),
        ("                request.output_token_ids.append(token_id)\n"),
    ),
]
