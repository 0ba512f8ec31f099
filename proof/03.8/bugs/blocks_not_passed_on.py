STORY = (
    "A learner takes the head start and does not pass the cached blocks on. The table begins with blocks that "
    "nobody filled."
)
CONCEPT = "A prefix hit is a head start: only what is missing is computed, the rest is shared."
EDITS = [
    (
        "kv.allocate_slots(request, n, computed_blocks) is None",
        "kv.allocate_slots(request, n) is None",
    ),
]
