STORY = "A learner asks which of the two is larger, and has them the wrong way round."
CONCEPT = "The longer the context, the more speaks for swapping: the fixed price of a copy is paid once."
EDITS = [
    (
        "return self.swap(num_tokens) < self.recompute(num_tokens)",
        "return self.swap(num_tokens) > self.recompute(num_tokens)",
    ),
]
