STORY = "A learner subtracts all blocks of the hit. Those in the free queue are counted as free and as had."
CONCEPT = "A cached block that a request holds costs nothing; one in the free queue costs one free block."
EDITS = [
    (
        "kv.num_blocks_needed(request, num_tokens, computed_blocks)",
        "max(-(-num_tokens // kv.block_size) - len(computed_blocks), 0)",
    ),
]
