STORY = (
    "A learner holds the blocks of the hit to see what is left, and lets them go again. They move to the "
    "end of the free queue, and others are taken first."
)
CONCEPT = (
    "Asking changes nothing: not the request, not the lists, not the blocks of the hit or the order of the free ones."
)
EDITS = [
    (
        "return kv.num_blocks_needed(request, num_tokens, computed_blocks) + num_spare <= kv.num_free_blocks",
        (
            "needed = kv.num_blocks_needed(request, num_tokens, computed_blocks)\n"
            "        kv.block_pool.touch(computed_blocks)\n"
            "        kv.block_pool.free_blocks(list(computed_blocks))\n"
            "        return needed + num_spare <= kv.num_free_blocks"
        ),
    ),
]
