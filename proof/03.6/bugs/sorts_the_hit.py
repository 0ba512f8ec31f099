STORY = (
    "A learner sorts the blocks of the hit to look at them. The request that is admitted gets its prefix "
    "in another order."
)
CONCEPT = (
    "Asking changes nothing: not the request, not the lists, not the blocks of the hit or the order of the free ones."
)
EDITS = [
    (
        ("        return kv.num_blocks_needed(request, num_tokens, computed_blocks) + num_spare <= kv.num_free_blocks"),
        (
            "        if isinstance(computed_blocks, list):\n"
            "            computed_blocks.sort(key=lambda block: block.block_id)\n"
            "        return kv.num_blocks_needed(request, num_tokens, computed_blocks) + num_spare <= "
            "kv.num_free_blocks"
        ),
    ),
]
