STORY = (
    "A learner takes the length of the model for the end of a chunk, and its last token for an output. A "
    "prompt of that length takes two steps."
)
CONCEPT = "Two numbers alone make a chunk: how far the request is behind, and what is left of the budget."
EDITS = [
    (
        "return num_new_tokens if num_new_tokens < token_budget else token_budget",
        "return min(num_new_tokens, token_budget, max(1, self.max_model_len - 1))",
    ),
]
