STORY = "A learner keeps the last things said in a buffer of 64 tokens. A victim that said more comes back without the rest."
CONCEPT = "The counter goes back to 0; what the request knows, its output included, stays."
EDITS = [
    (
        "        self.kv_cache_manager.free(request)\n        request.status",
        "        self.kv_cache_manager.free(request)\n        del request.output_token_ids[64:]\n        request.status",
    )
]
