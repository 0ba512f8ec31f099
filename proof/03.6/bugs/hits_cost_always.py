STORY = "A learner counts each block of the hit as one that leaves the queue, held or not."
CONCEPT = "A cached block that a request holds costs nothing; one in the free queue costs one free block."
EDITS = [
    (
        "kv.num_blocks_needed(request, num_tokens, computed_blocks)",
        "-(-num_tokens // kv.block_size)",
    ),
]
