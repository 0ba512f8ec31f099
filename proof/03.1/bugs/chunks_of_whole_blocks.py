STORY = (
    "An engine rounds chunks down to whole blocks, as some kernels like it. What is less than a block is never "
    "computed."
)
CONCEPT = "A chunk is as large as it can be: all that is missing, or all that the budget has left."
EDITS = [
    (
        "return num_new_tokens if num_new_tokens < token_budget else token_budget",
        ("n = min(num_new_tokens, token_budget)\n        return n - n % self.kv_cache_manager.block_size"),
    ),
]
