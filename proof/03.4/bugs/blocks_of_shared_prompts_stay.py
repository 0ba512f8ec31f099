STORY = (
    "A learner frees the blocks of a finished request if nobody else holds one of them. The others never "
    "free what it held alone."
)
CONCEPT = "In any run a step leaves the counters, the tokens, the lists and the blocks as they have to be."
EDITS = [
    (
        ("                    self.kv_cache_manager.free(request)\n"),
        (
            "                    table = self.kv_cache_manager.get_block_ids(request_id)\n"
            "                    others = [r for r in self.running if r is not request]\n"
            "                    held = {b for r in others for b in self.kv_cache_manager.get_block_ids(r.request_id)}\n"
            "                    if not held.intersection(table):\n"
            "                        self.kv_cache_manager.free(request)\n"
        ),
    ),
]
