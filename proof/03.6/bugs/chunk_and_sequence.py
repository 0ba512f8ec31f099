STORY = "A learner adds the chunk to the sequence, which contains it already. Long prompts are refused though they fit."
CONCEPT = "A request is admitted if the blocks for all that it knows are free now, to the last one."
EDITS = [
    (
        ("            num_tokens = request.num_tokens\n"),
        ("            num_tokens = request.num_tokens + num_tokens - 1\n"),
    ),
]
