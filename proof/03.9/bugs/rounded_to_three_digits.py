STORY = "The usage is rounded for the page that shows it. A level is the level itself; who shows it may round it."
CONCEPT = "After any run the figures of a step are those of that step, and to look has changed nothing."
EDITS = [
    ("kv_cache_usage=scheduler.kv_cache_manager.usage", "kv_cache_usage=round(scheduler.kv_cache_manager.usage, 3)")
]
