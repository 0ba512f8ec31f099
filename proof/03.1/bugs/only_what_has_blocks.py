STORY = (
    "A learner cuts the chunk to the slots that are free. A request that needs more is to preempt or to "
    "wait; here it takes what there is, and others starve."
)
CONCEPT = "Two numbers alone make a chunk: how far the request is behind, and what is left of the budget."
EDITS = [
    (
        "return num_new_tokens if num_new_tokens < token_budget else token_budget",
        (
            "kv = self.kv_cache_manager\n"
            "        room = max(1, kv.num_free_blocks * kv.block_size)\n"
            "        return min(num_new_tokens, token_budget, room)"
        ),
    ),
]
