STORY = (
    "A learner takes the counts out of the output while it goes over them. Whoever records the step "
    "afterwards finds it empty."
)
CONCEPT = "What the call is given stays as it is: the output of schedule() and the sampled tokens."
EDITS = [
    (
        ("num_scheduled_tokens[request_id]\n"),
        ("num_scheduled_tokens.pop(request_id)\n"),
    ),
]
