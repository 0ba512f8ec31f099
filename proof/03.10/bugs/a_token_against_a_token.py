STORY = "A learner compares the price of one token, and so the fixed price weighs the same for all."
CONCEPT = "The longer the context, the more speaks for swapping: the fixed price of a copy is paid once."
EDITS = [
    (
        "return self.swap(num_tokens) < self.recompute(num_tokens)",
        "return self.swap(1) < self.recompute(1)",
    ),
]
