STORY = (
    "A learner swaps out whoever has given way before, to spare it the computing. It costs more than computing does."
)
CONCEPT = "The price is that of the computed tokens, wherever they came from and however often their request gave way."
EDITS = [
    (
        "self.cost.swap_is_cheaper(num_tokens))",
        "self.cost.swap_is_cheaper(num_tokens) or request.num_preemptions > 1)",
    ),
]
