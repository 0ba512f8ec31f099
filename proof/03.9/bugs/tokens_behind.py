STORY = "A learner adds up how far the requests of the step are behind. An inner chunk counts as the whole prompt."
CONCEPT = "The tokens of a step are those that it computes, not what was allowed and not what is known."
EDITS = [
    (
        ("            num_scheduled_tokens=output.total_num_scheduled_tokens,\n"),
        (
            "            num_scheduled_tokens=sum(\n"
            "                r.num_tokens - r.num_computed_tokens for r in output.scheduled_requests\n"
            "            ),\n"
        ),
    ),
]
