STORY = (
    "A learner moves the counter by one token a step, as for a decode. A prompt of a thousand tokens is computed "
    "a thousand times."
)
CONCEPT = "What was scheduled is computed now: the counter moves by the chunk, whether or not a token came out."
EDITS = [
    (
        ("            request.num_computed_tokens += num_scheduled_tokens[request_id]\n"),
        ("            request.num_computed_tokens += 1\n"),
    ),
]
