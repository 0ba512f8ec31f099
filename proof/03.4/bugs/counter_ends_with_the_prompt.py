STORY = "A learner counts the prompt, and takes a decode for something else. Each step computes the whole output again."
CONCEPT = "A sampled token is known and not yet computed: the request is one behind again."
EDITS = [
    (
        ("            request.num_computed_tokens += num_scheduled_tokens[request_id]\n"),
        (
            "            request.num_computed_tokens += num_scheduled_tokens[request_id]\n"
            "            request.num_computed_tokens = min(request.num_computed_tokens, request.num_prompt_tokens)\n"
        ),
    ),
]
