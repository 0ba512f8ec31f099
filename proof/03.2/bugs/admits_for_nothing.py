STORY = (
    "A learner tests the budget with >=. A request is admitted to compute 0 tokens, takes a place and stands in "
    "the batch."
)
CONCEPT = "All requests share one budget: it is spent in order, and a request that finds it empty goes on waiting."
EDITS = [
    (
        "while token_budget > 0 and",
        "while token_budget >= 0 and",
    ),
]
