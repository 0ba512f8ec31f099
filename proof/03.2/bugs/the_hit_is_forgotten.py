STORY = "A learner schedules what is missing and leaves the counter at 0. The chunk stands at the wrong positions."
CONCEPT = "A prefix hit is a head start: only what is missing is computed, the rest of the table is shared."
EDITS = [
    (
        ("        request.num_computed_tokens = num_computed_tokens\n"),
        "",
    ),
]
