STORY = (
    "An engine without chunked prefill admits a prompt only when it fits the rest of the budget. Long prompts "
    "wait for an idle moment that may not come."
)
CONCEPT = "Running requests compute first; a newcomer gets what they leave of the budget."
EDITS = [
    (
        "if n > token_budget or not",
        "if request.num_tokens - num_computed > token_budget or not",
    ),
]
