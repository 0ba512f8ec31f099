STORY = (
    "A learner wants every request to make progress. A step with an exhausted budget goes on for one token a "
    "request, and the batch is larger than the buffers."
)
CONCEPT = "What others took of the budget is gone; when nothing is left, the chunk is empty."
EDITS = [
    (
        "return num_new_tokens if num_new_tokens < token_budget else token_budget",
        "return max(1, min(num_new_tokens, token_budget))",
    ),
]
