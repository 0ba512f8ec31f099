STORY = (
    "A learner reserves the whole sequence for newcomers only, since a victim fitted once. It comes back "
    "for its first chunk, and blocks run out again."
)
CONCEPT = "A victim is admitted again by the same rules as a newcomer."
EDITS = [
    (
        ("        if self.reserve_full_sequence:\n"),
        ("        if self.reserve_full_sequence and not request.num_preemptions:\n"),
    ),
]
