STORY = (
    "A learner writes max where min belongs. Every chunk fills the budget, even that of a request which misses "
    "one token."
)
CONCEPT = "A chunk is as large as it can be: all that is missing, or all that the budget has left."
EDITS = [
    (
        "return num_new_tokens if num_new_tokens < token_budget else token_budget",
        "return max(num_new_tokens, token_budget)",
    ),
]
