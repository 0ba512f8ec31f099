STORY = (
    "vLLM 0.33.0 keeps the hashes of a chunk whose request is preempted in the same step. The request comes back "
    "to a hit on blocks that nobody filled."
)
CONCEPT = "What was only promised is withdrawn: blocks that this step was to fill must not be found."
EDITS = [
    (
        ("        self.kv_cache_manager.free(request)\n"),
        ("        request.num_computed_tokens = request.num_tokens\n        self.kv_cache_manager.free(request)\n"),
    ),
]
