STORY = "A learner shows what is free under the name of what is held. An idle server looks full."
CONCEPT = (
    "Usage is the share of the usable blocks that are held: a shared block counts once, a cached free one does not."
)
EDITS = [
    (
        ("            kv_cache_usage=scheduler.kv_cache_manager.usage,\n"),
        ("            kv_cache_usage=1 - scheduler.kv_cache_manager.usage,\n"),
    ),
]
