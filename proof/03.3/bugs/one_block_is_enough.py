STORY = (
    "A learner gives back the block that the other request asked for. The rest stays with a request that waits, "
    "and nobody can use it."
)
CONCEPT = "A victim gives back every block, the one it has just begun too."
EDITS = [
    (
        ("        self.kv_cache_manager.free(request)\n"),
        (
            "        kv = self.kv_cache_manager\n"
            "        *kept, last = kv._tables.pop(request.request_id)\n"
            "        kv.block_pool.free_blocks([last])\n"
            "        if kept:\n"
            '            kv._tables["kept " + request.request_id] = kept\n'
        ),
    ),
]
