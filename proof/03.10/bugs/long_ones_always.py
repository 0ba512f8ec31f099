STORY = "A learner has read that swapping pays for long contexts, and so swaps from 100 tokens on."
CONCEPT = "The longer the context, the more speaks for swapping: the fixed price of a copy is paid once."
EDITS = [
    (
        "return self.swap(num_tokens) < self.recompute(num_tokens)",
        "return num_tokens >= 100 or self.swap(num_tokens) < self.recompute(num_tokens)",
    ),
]
