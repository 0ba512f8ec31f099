STORY = "A learner ignores the switch. A prompt that could begin waits until all of it fits."
CONCEPT = "A request is admitted if the blocks for all that it knows are free now, to the last one."
EDITS = [
    (
        ("        if self.reserve_full_sequence:\n            num_tokens = request.num_tokens\n"),
        ("        num_tokens = request.num_tokens\n"),
    ),
]
