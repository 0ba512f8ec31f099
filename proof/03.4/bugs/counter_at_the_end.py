STORY = (
    "A learner sets the counter to all that is known. A prompt that was cut counts as computed after its first chunk."
)
CONCEPT = "What was scheduled is computed now: the counter moves by the chunk, whether or not a token came out."
EDITS = [
    (
        ("            request.num_computed_tokens += num_scheduled_tokens[request_id]\n"),
        ("            request.num_computed_tokens = request.num_tokens\n"),
    ),
]
