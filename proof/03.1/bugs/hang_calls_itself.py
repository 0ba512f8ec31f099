STORY = (
    "A learner halves the chunk until it fits and forgets that nothing at all can be left. With an empty budget "
    "the call goes on for ever."
)
CONCEPT = "What others took of the budget is gone; when nothing is left, the chunk is empty."
EDITS = [
    (
        "return num_new_tokens if num_new_tokens < token_budget else token_budget",
        (
            "if num_new_tokens <= token_budget:\n"
            "            return num_new_tokens\n"
            "        return self._clamp_new_tokens(max(token_budget, 1), token_budget)"
        ),
    ),
]
