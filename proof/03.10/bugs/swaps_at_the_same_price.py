STORY = "A learner swaps at the same price, too."
CONCEPT = "The longer the context, the more speaks for swapping: the fixed price of a copy is paid once."
EDITS = [
    (
        "return self.swap(num_tokens) < self.recompute(num_tokens)",
        "return self.swap(num_tokens) <= self.recompute(num_tokens)",
    ),
]
