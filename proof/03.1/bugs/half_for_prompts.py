STORY = (
    "A learner lets prompts have half of the budget while two or more run, so that decodes are quick. No "
    "rule of the step says so."
)
CONCEPT = "Two numbers alone make a chunk: how far the request is behind, and what is left of the budget."
EDITS = [
    (
        "return num_new_tokens if num_new_tokens < token_budget else token_budget",
        (
            "if len(self.running) > 2 and num_new_tokens > 2:\n"
            "            token_budget = (token_budget + 1) // 2\n"
            "        return min(num_new_tokens, token_budget)"
        ),
    ),
]
