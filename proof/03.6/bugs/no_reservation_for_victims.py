STORY = (
    "A learner reserves the whole sequence for newcomers only, since a victim fitted once. It comes back "
    "for its first chunk, and blocks run out again."
)
CONCEPT = "A victim is let in again by the rules for all: nothing is cheaper for who has begun."
EDITS = [
    (
        ("        if self.reserve_full_sequence:\n"),
        ("        if self.reserve_full_sequence and not request.num_preemptions:\n"),
    ),
]
