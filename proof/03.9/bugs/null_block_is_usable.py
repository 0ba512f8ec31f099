STORY = "A learner divides by all blocks, the null block among them. A full cache never shows 1."
CONCEPT = (
    "Usage is the share of the usable blocks that are held: a shared block counts once, a cached free one does not."
)
EDITS = [
    (
        ("            kv_cache_usage=scheduler.kv_cache_manager.usage,\n"),
        (
            "            kv_cache_usage=1\n"
            "            - (scheduler.kv_cache_manager.num_free_blocks + 1) / scheduler.kv_cache_manager.num_blocks,\n"
        ),
    ),
]
