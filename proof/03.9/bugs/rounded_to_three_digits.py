STORY = "The usage is rounded for the page that shows it. A level is the level itself; who shows it may round it."
CONCEPT = "No figure is rounded: a third is a third, to the last digit that a float has."
EDITS = [
    ("kv_cache_usage=scheduler.kv_cache_manager.usage", "kv_cache_usage=round(scheduler.kv_cache_manager.usage, 3)")
]
