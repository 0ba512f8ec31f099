STORY = "A learner compares with the size of the cache. What others hold is promised a second time."
CONCEPT = "Running requests hold their blocks: only the free ones count."
EDITS = [
    (
        "<= kv.num_free_blocks",
        "<= kv.num_usable_blocks",
    ),
]
