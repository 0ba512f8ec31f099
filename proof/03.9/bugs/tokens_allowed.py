STORY = "A learner writes down the budget. It is what a step may compute, and most steps compute less."
CONCEPT = "The tokens of a step are those that it computes, not what was allowed and not what is known."
EDITS = [
    (
        ("            num_scheduled_tokens=output.total_num_scheduled_tokens,\n"),
        ("            num_scheduled_tokens=scheduler.max_num_batched_tokens if output.num_scheduled_tokens else 0,\n"),
    ),
]
