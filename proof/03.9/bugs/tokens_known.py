STORY = "A learner adds up what the requests of the step know. A decode of a long request counts as thousands."
CONCEPT = "The tokens of a step are those that it computes, not what was allowed and not what is known."
EDITS = [
    (
        ("            num_scheduled_tokens=output.total_num_scheduled_tokens,\n"),
        ("            num_scheduled_tokens=sum(request.num_tokens for request in output.scheduled_requests),\n"),
    ),
]
