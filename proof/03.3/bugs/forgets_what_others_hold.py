STORY = (
    "A learner withdraws from the cache the blocks of a victim that others hold. They are computed, and "
    "nobody finds them any more."
)
CONCEPT = "In any run a victim is the last, gives back all but its tokens, and stands at the front of the queue."
EDITS = [
    (
        ("        self.kv_cache_manager.free(request)\n"),
        (
            "        kv = self.kv_cache_manager\n"
            "        table = [kv.block_pool.blocks[i] for i in kv.get_block_ids(request.request_id)]\n"
            "        kv.free(request)\n"
            "        for block in table:\n"
            "            if block.ref_cnt:\n"
            "                kv.block_pool.uncache_block(block)\n"
        ),
    ),
]
