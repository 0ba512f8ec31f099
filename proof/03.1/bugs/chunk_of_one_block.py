STORY = (
    "An engine whose kernel reads one block at a time cuts prompts into blocks. The budget stays mostly unused "
    "and prefill takes many times the steps."
)
CONCEPT = "A chunk is as large as it can be: all that is missing, or all that the budget has left."
EDITS = [
    (
        "return num_new_tokens if num_new_tokens < token_budget else token_budget",
        "return min(num_new_tokens, token_budget, self.kv_cache_manager.block_size)",
    ),
]
