STORY = (
    "A learner keeps a token for each other running request while a prompt is cut. They have theirs "
    "already or get it later, and the step is smaller than it may be."
)
CONCEPT = "Two numbers alone make a chunk: how far the request is behind, and what is left of the budget."
EDITS = [
    (
        "return num_new_tokens if num_new_tokens < token_budget else token_budget",
        (
            "if num_new_tokens > 1:\n"
            "            token_budget = max(min(token_budget, 1), token_budget - len(self.running[3:]))\n"
            "        return min(num_new_tokens, token_budget)"
        ),
    ),
]
