STORY = "A learner leaves the counter to schedule(), as in vLLM. Here nobody moves it."
CONCEPT = "What was scheduled is computed now: the counter moves by the chunk, whether or not a token came out."
EDITS = [
    (
        ("            request.num_computed_tokens += num_scheduled_tokens[request_id]\n"),
        "",
    ),
]
