STORY = "A learner thinks in percent. Everybody who reads the figure multiplies by 100 once more."
CONCEPT = (
    "Usage is the share of the usable blocks that are held: a shared block counts once, a cached free one does not."
)
EDITS = [
    (
        ("            kv_cache_usage=scheduler.kv_cache_manager.usage,\n"),
        ("            kv_cache_usage=100 * scheduler.kv_cache_manager.usage,\n"),
    ),
]
