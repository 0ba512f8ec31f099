STORY = (
    "A learner compares with max_num_batched_tokens and forgets the argument. Every request gets a budget of its own."
)
CONCEPT = "What others took of the budget is gone; when nothing is left, the chunk is empty."
EDITS = [
    (
        "return num_new_tokens if num_new_tokens < token_budget else token_budget",
        "return min(num_new_tokens, self.max_num_batched_tokens)",
    ),
]
