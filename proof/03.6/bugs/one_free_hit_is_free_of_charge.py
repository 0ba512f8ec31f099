STORY = (
    "A learner lets a free block of the hit cost nothing if another one of the hit is held. Each of them "
    "leaves the free queue."
)
CONCEPT = "In any run both rules answer from the state of the moment, whatever they answered before."
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
