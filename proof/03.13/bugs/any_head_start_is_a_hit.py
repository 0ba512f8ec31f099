STORY = "What came from elsewhere counts as a hit of the prefix cache."
CONCEPT = (
    "The statistics are of the prefix cache: what came from elsewhere is no hit, and without a cache there is none."
)
EDITS = [
    (
        "num_hits = num_computed_tokens - self.kv_cache_manager.num_external_tokens(request)",
        "num_hits = num_computed_tokens",
    ),
]
