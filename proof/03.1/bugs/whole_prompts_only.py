STORY = (
    "An engine without chunked prefill takes a prompt as a whole or not at all. A prompt longer than the budget "
    "waits for ever."
)
CONCEPT = "The budget alone cuts a long prompt; the next request gets what its last chunk leaves."
EDITS = [
    (
        "return num_new_tokens if num_new_tokens < token_budget else token_budget",
        "return num_new_tokens if num_new_tokens <= token_budget else 0",
    ),
]
