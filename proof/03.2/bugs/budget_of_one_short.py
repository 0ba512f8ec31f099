STORY = "A learner stops when one token is left. The last token of the budget is never used by a newcomer."
CONCEPT = "All requests share one budget: it is spent in order, and a request that finds it empty goes on waiting."
EDITS = [
    (
        "while token_budget > 0 and",
        "while token_budget > 1 and",
    ),
]
