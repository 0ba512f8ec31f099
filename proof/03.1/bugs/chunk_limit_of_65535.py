STORY = "A learner keeps the size of a chunk in 16 bits. A very long prompt takes more steps than the budget asks for."
CONCEPT = "A chunk is as large as it can be: all that is missing, or all that the budget has left."
EDITS = [
    (
        "        return num_new_tokens if num_new_tokens < token_budget else token_budget\n",
        "        return min(num_new_tokens, token_budget, 65_535)\n",
    )
]
