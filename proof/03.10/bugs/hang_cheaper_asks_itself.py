STORY = "A learner asks swap_is_cheaper for one token less, and nobody says when to stop."
CONCEPT = "The longer the context, the more speaks for swapping: the fixed price of a copy is paid once."
EDITS = [
    (
        "return self.swap(num_tokens) < self.recompute(num_tokens)",
        "return self.swap_is_cheaper(num_tokens - 1) or self.swap(num_tokens) < self.recompute(num_tokens)",
    ),
]
