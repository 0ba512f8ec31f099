STORY = (
    "A learner passes the cached blocks and schedules the whole prompt all the same. It computes more tokens than"
    " it knows."
)
CONCEPT = "A prefix hit is a head start: only what is missing is computed, the rest of the table is shared."
EDITS = [
    (
        "num_missing = request.num_tokens - num_computed",
        "num_missing = request.num_tokens",
    ),
]
