STORY = (
    "A learner takes those that run for the batch. The page shows a large batch in steps that computed a few "
    "tokens for some."
)
CONCEPT = "A running request need not compute: one that gets no token in this step counts as running all the same."
EDITS = [
    (
        ("            num_scheduled_reqs=len(output.num_scheduled_tokens),\n"),
        ("            num_scheduled_reqs=len(scheduler.running),\n"),
    ),
]
