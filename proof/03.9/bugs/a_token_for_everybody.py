STORY = "A learner thinks of decodes alone: a request, a token. Prefill is invisible."
CONCEPT = "The tokens of a step are those that it computes, not what was allowed and not what is known."
EDITS = [
    (
        ("            num_scheduled_tokens=output.total_num_scheduled_tokens,\n"),
        ("            num_scheduled_tokens=len(output.num_scheduled_tokens),\n"),
    ),
]
