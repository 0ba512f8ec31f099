STORY = (
    "A learner leaves a token of the budget for others if more than one waits. What they may have is what "
    "is left over, not what is kept."
)
CONCEPT = "Two numbers alone make a chunk: how far the request is behind, and what is left of the budget."
EDITS = [
    (
        "return num_new_tokens if num_new_tokens < token_budget else token_budget",
        (
            "if len(self.waiting) > 2 and token_budget > 1:\n"
            "            token_budget -= 1\n"
            "        return min(num_new_tokens, token_budget)"
        ),
    ),
]
