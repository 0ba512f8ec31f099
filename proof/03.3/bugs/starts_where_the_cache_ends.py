STORY = (
    "A learner sets the counter to what the cache would find now, so that less is computed again. Until "
    "the request is admitted others may take those blocks."
)
CONCEPT = "In any run a victim is the last, gives back all but its tokens, and stands at the front of the queue."
EDITS = [
    (
        "request.num_computed_tokens = 0",
        "_, request.num_computed_tokens = self.kv_cache_manager.get_computed_blocks(request)",
    ),
]
