STORY = (
    "A learner passes the blocks on and forgets the head start. The shared part is computed once more, into the "
    "slots of others."
)
CONCEPT = "A prefix hit is a head start: only what is missing is computed, the rest is shared."
EDITS = [
    (
        "self._admit(request, num_computed)",
        "self._admit(request, 0)",
    ),
]
