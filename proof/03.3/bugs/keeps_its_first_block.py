STORY = (
    "A learner gives back what lies above the computed part, as after a step that failed. Nearly all blocks stay "
    "with a request that waits."
)
CONCEPT = "A victim gives back every block, the one it has just begun too."
EDITS = [
    (
        ("        self.kv_cache_manager.free(request)\n"),
        (
            "        kv = self.kv_cache_manager\n"
            "        table = kv._tables[request.request_id]\n"
            "        kv.block_pool.free_blocks(table[1:])\n"
            "        del table[1:]\n"
        ),
    ),
]
