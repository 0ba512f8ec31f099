STORY = (
    "A learner reserves the whole sequence for newcomers only, since a victim fitted once. It comes back "
    "for its first chunk, and blocks run out again."
)
CONCEPT = "A victim is reserved like a newcomer: all that it knows must fit."
EDITS = [
    (
        ("        if self.reserve_full_sequence:\n"),
        ("        if self.reserve_full_sequence and not request.num_preemptions:\n"),
    ),
]
