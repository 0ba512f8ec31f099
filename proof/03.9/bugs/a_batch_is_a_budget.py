STORY = "A step never computes more than the budget, thinks a learner, and cuts the figure to it. Another scheduler, or a budget that was lowered meanwhile, may have a step beyond."
CONCEPT = "After any run the figures of a step are those of that step, and to look has changed nothing."
EDITS = [
    (
        "num_scheduled_tokens=output.total_num_scheduled_tokens",
        "num_scheduled_tokens=min(output.total_num_scheduled_tokens, scheduler.max_num_batched_tokens)",
    )
]
