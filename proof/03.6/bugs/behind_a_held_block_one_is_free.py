STORY = (
    "A learner lets one free block of the hit cost nothing if the first one is held and two are free. "
    "Each of them leaves the free queue."
)
CONCEPT = "Each block of a hit has its own price: the held ones cost nothing, the free ones cost one each."
EDITS = [
    (
        "        return kv.num_blocks_needed",
        (
            "        free_hits = sum(block.ref_cnt == 0 for block in computed_blocks)\n"
            "        if free_hits > 1 and computed_blocks[0].ref_cnt:\n"
            "            num_spare -= 1\n"
            "        return kv.num_blocks_needed"
        ),
    ),
]
