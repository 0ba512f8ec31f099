STORY = (
    "A learner admits whole prompts only. One that is longer than the budget waits for ever, and everybody behind it."
)
CONCEPT = "A prompt longer than the budget is cut; no request is admitted or decodes until its end is computed."
EDITS = [
    (
        (
            "            if n + num_charged > token_budget:\n"
            "                if output.num_scheduled_tokens:\n"
            "                    break\n"
            "                n = self._chunk_size(request, num_computed, token_budget)  # the first of its "
            "step may be cut\n"
        ),
        ("            if n + num_charged > token_budget:\n                break\n"),
    ),
]
