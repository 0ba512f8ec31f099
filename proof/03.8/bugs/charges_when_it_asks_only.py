STORY = (
    "nano-vllm's first versions compare the whole prompt with the budget, and pay for what is computed: half of "
    "the option."
)
CONCEPT = (
    "charge_cached_tokens: the budget pays for the whole prompt, and a long one is deferred though little is computed."
)
EDITS = [
    (
        "token_budget -= n + num_charged",
        "token_budget -= n",
    ),
]
