STORY = "A learner copies a fixed chunk size from a blog. A larger budget then buys nothing."
CONCEPT = "A chunk is as large as it can be: all that is missing, or all that the budget has left."
EDITS = [
    (
        "return num_new_tokens if num_new_tokens < token_budget else token_budget",
        "return min(num_new_tokens, token_budget, 512)",
    ),
]
