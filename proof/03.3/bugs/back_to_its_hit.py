STORY = (
    "A learner sets the counter back to the prefix hit of the first admission. The blocks of the hit are "
    "given back like the others, so the counter speaks of slots that it has not."
)
CONCEPT = "In any run a victim is the last, gives back all but its tokens, and stands at the front of the queue."
EDITS = [
    (
        "request.num_computed_tokens = 0",
        "request.num_computed_tokens = min(request.num_computed_tokens, request.num_cached_tokens)",
    ),
]
