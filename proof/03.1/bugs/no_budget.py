STORY = (
    "A learner hands over whatever is missing. One long prompt then fills a step of any size, and everybody else "
    "waits for it."
)
CONCEPT = "A chunk is as large as it can be: all that is missing, or all that the budget has left."
EDITS = [
    (
        "return num_new_tokens if num_new_tokens < token_budget else token_budget",
        "return num_new_tokens",
    ),
]
