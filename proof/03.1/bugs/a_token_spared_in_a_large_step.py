STORY = (
    "A learner leaves one token of a large budget unused, to be on the safe side of the buffers. The "
    "last chunk of a prompt takes a step of its own."
)
CONCEPT = "Two numbers alone make a chunk: how far the request is behind, and what is left of the budget."
EDITS = [
    (
        "return num_new_tokens if num_new_tokens < token_budget else token_budget",
        (
            "spared = 1 if self.max_num_batched_tokens >= 1024 and token_budget > 1 else 0\n"
            "        return min(num_new_tokens, token_budget - spared)"
        ),
    ),
]
