STORY = (
    "A learner keeps as computed what lies in the block that was begun: the counter that free() sees is "
    "rounded up, so blocks that were only promised stay in the cache."
)
CONCEPT = "What was only promised is withdrawn: blocks that this step was to fill must not be found."
EDITS = [
    (
        "self.kv_cache_manager.free(request)",
        (
            "size = self.kv_cache_manager.block_size\n"
            "        request.num_computed_tokens += -request.num_computed_tokens % size or size * (request.num_computed_tokens == 0)\n"
            "        self.kv_cache_manager.free(request)"
        ),
    ),
]
