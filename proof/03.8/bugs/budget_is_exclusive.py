STORY = "A learner compares with >=. A prompt that fills the budget to the last token is deferred."
CONCEPT = "Prompts share a step while they fit whole; the first that does not is deferred to the next, and not cut."
EDITS = [
    (
        "            if n + num_charged > token_budget:",
        "            if n + num_charged >= token_budget:",
    ),
]
