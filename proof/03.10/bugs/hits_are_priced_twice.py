STORY = "The tokens that were found at first are added to the price, though the counter has them already."
CONCEPT = "The price is that of the computed tokens, wherever they came from and however often their request gave way."
EDITS = [
    (
        "self.cost.swap_is_cheaper(num_tokens))",
        "self.cost.swap_is_cheaper(num_tokens + request.num_cached_tokens))",
    ),
]
