STORY = (
    "A learner keeps a limit from a configuration file. No test of a few hundred tokens meets it, and a "
    "long prompt is cut though the budget has room."
)
CONCEPT = "A chunk follows from two numbers: not from those who wait, from the free blocks or from a call before."
EDITS = [
    (
        "return num_new_tokens if num_new_tokens < token_budget else token_budget",
        "return min(num_new_tokens, token_budget, 8192)",
    ),
]
