STORY = (
    "A learner takes the batch for those that run. On a small budget requests vanish from the page that hold "
    "blocks all the while."
)
CONCEPT = "A running request need not compute: one that gets no token in this step counts as running all the same."
EDITS = [
    (
        ("            num_running_reqs=len(scheduler.running),\n"),
        ("            num_running_reqs=len(output.num_scheduled_tokens),\n"),
    ),
]
