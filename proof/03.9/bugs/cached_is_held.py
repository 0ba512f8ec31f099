STORY = (
    "A learner counts what is cached as held. After an hour the page says 100 % for ever, though every block "
    "could be taken."
)
CONCEPT = (
    "Usage is the share of the usable blocks that are held: a shared block counts once, a cached free one does not."
)
EDITS = [
    (
        ("            kv_cache_usage=scheduler.kv_cache_manager.usage,\n"),
        (
            "            kv_cache_usage=max(\n"
            "                scheduler.kv_cache_manager.usage,\n"
            "                scheduler.kv_cache_manager.num_cached_blocks\n"
            "                / scheduler.kv_cache_manager.num_usable_blocks,\n"
            "            ),\n"
        ),
    ),
]
