STORY = "A learner stops when one token is left. The last token of the budget is never used by a newcomer."
CONCEPT = "One budget for all: it is spent in order, and who finds it empty goes on waiting."
EDITS = [
    (
        "while token_budget > 0 and",
        "while token_budget > 1 and",
    ),
]
