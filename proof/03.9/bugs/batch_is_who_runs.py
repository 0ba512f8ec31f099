STORY = (
    "A learner takes those that run for the batch. The page shows a large batch in steps that computed a few "
    "tokens for some."
)
CONCEPT = "Who runs is not who computes: one that gets no token in this step runs all the same."
EDITS = [
    (
        ("            num_scheduled_reqs=len(output.num_scheduled_tokens),\n"),
        ("            num_scheduled_reqs=len(scheduler.running),\n"),
    ),
]
