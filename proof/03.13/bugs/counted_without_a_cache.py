STORY = "Admissions are counted with prefix caching off, too: a hit rate of 0 in place of none."
CONCEPT = (
    "The statistics are of the prefix cache: what came from elsewhere is no hit, and without a cache there is none."
)
EDITS = [
    (
        "        if self.kv_cache_manager.enable_prefix_caching:\n            stats",
        "        if stats:\n            stats",
    ),
]
