STORY = "A learner adds up the block tables. Shared blocks count once for each table, and the share can pass 1."
CONCEPT = (
    "Usage is the share of the usable blocks that are held: a shared block counts once, a cached free one does not."
)
EDITS = [
    (
        ("            kv_cache_usage=scheduler.kv_cache_manager.usage,\n"),
        (
            "            kv_cache_usage=sum(\n"
            "                len(scheduler.kv_cache_manager.get_block_ids(r.request_id)) for r in scheduler.running\n"
            "            )\n"
            "            / scheduler.kv_cache_manager.num_usable_blocks,\n"
        ),
    ),
]
