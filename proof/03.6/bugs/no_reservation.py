STORY = (
    "A learner asks for the chunk alone. Two half-computed prompts fill the cache, and one has to give up what it"
    " computed."
)
CONCEPT = "A request is admitted if the blocks for all that it knows are free now, to the last one."
EDITS = [
    (
        ("        if self.reserve_full_sequence:\n            num_tokens = request.num_tokens\n"),
        "",
    ),
]
