STORY = (
    "A learner compares computed tokens with slots. The last block of a request is held as a whole, and the page "
    "says it is not."
)
CONCEPT = (
    "Usage is the share of the usable blocks that are held: a shared block counts once, a cached free one does not."
)
EDITS = [
    (
        ("            kv_cache_usage=scheduler.kv_cache_manager.usage,\n"),
        (
            "            kv_cache_usage=sum(r.num_computed_tokens for r in scheduler.running)\n"
            "            / (scheduler.kv_cache_manager.num_usable_blocks * scheduler.kv_cache_manager.block_size),\n"
        ),
    ),
]
