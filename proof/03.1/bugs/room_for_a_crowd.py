STORY = (
    "A learner leaves a token of the budget for others if more than one waits. What they may have is what "
    "is left over, not what is kept."
)
CONCEPT = "A chunk follows from two numbers: not from those who wait, from the free blocks or from a call before."
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
