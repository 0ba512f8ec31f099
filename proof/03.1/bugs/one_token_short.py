STORY = (
    "An engine keeps the last token of a prompt for the first decode. A request that is one token behind never moves."
)
CONCEPT = "A chunk is as large as it can be: all that is missing, or all that the budget has left."
EDITS = [
    (
        "return num_new_tokens if num_new_tokens < token_budget else token_budget",
        "return min(num_new_tokens - 1, token_budget)",
    ),
]
