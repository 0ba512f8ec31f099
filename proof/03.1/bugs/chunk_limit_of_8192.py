STORY = (
    "A learner keeps a limit from a configuration file. No test of a few hundred tokens meets it, and a "
    "long prompt is cut though the budget has room."
)
CONCEPT = "Two numbers alone make a chunk: how far the request is behind, and what is left of the budget."
EDITS = [
    (
        "return num_new_tokens if num_new_tokens < token_budget else token_budget",
        "return min(num_new_tokens, token_budget, 8192)",
    ),
]
