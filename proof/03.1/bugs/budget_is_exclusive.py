STORY = (
    "A learner treats the budget like the end of a range. Each step leaves one token unused, and a budget of 1 "
    "computes nothing."
)
CONCEPT = "A chunk is as large as it can be: all that is missing, or all that the budget has left."
EDITS = [
    (
        "return num_new_tokens if num_new_tokens < token_budget else token_budget",
        "return min(num_new_tokens, token_budget - 1)",
    ),
]
