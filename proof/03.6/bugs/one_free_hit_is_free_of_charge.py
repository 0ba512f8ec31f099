STORY = (
    "A learner lets a free block of the hit cost nothing if another one of the hit is held. Each of them "
    "leaves the free queue."
)
CONCEPT = "Each block of a hit has its own price: the held ones cost nothing, the free ones cost one each."
EDITS = [
    (
        "return kv.num_blocks_needed(request, num_tokens, computed_blocks) + num_spare <= kv.num_free_blocks",
        (
            "held = any(block.ref_cnt for block in computed_blocks)\n"
            "        needed = kv.num_blocks_needed(request, num_tokens, computed_blocks)\n"
            "        if held:\n"
            "            needed -= sum(not block.ref_cnt for block in computed_blocks)\n"
            "        return needed + num_spare <= kv.num_free_blocks"
        ),
    ),
]
