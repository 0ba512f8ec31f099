STORY = (
    "A learner counts a hit that one request holds among those that cost a block, since it will be free "
    "soon. It is shared now, and costs nothing."
)
CONCEPT = "A cached block that a request holds costs nothing; one in the free queue costs one free block."
EDITS = [
    (
        "return kv.num_blocks_needed(request, num_tokens, computed_blocks) + num_spare <= kv.num_free_blocks",
        (
            "soon = sum(block.ref_cnt == 1 for block in computed_blocks)\n"
            "        return kv.num_blocks_needed(request, num_tokens, computed_blocks) + num_spare + (soon > 1) <= kv.num_free_blocks"
        ),
    ),
]
