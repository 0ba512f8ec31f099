STORY = (
    "A learner takes the length of the model for the end of a chunk, and its last token for an output. A "
    "prompt of that length takes two steps."
)
CONCEPT = "A chunk follows from two numbers: not from those who wait, from the free blocks or from a call before."
EDITS = [
    (
        "return num_new_tokens if num_new_tokens < token_budget else token_budget",
        "return min(num_new_tokens, token_budget, max(1, self.max_model_len - 1))",
    ),
]
