STORY = (
    "A learner withdraws everything that the victim held, to be safe. It computes its whole prefix again although"
    " nobody took it."
)
CONCEPT = "What was computed can still be found: until its blocks are taken, a victim gets them back as a hit."
EDITS = [
    (
        ("        self.kv_cache_manager.free(request)\n"),
        (
            "        self.kv_cache_manager.free(request)\n"
            "        for block_hash in request.block_hashes:\n"
            "            self.kv_cache_manager.block_pool.uncache_hash(block_hash)\n"
        ),
    ),
]
