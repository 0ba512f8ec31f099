STORY = "A learner counts each block of the hit as one that leaves the queue, held or not."
CONCEPT = "A cached block that somebody holds costs nothing; one that lies in the free queue costs itself."
EDITS = [
    (
        "kv.num_blocks_needed(request, num_tokens, computed_blocks)",
        "-(-num_tokens // kv.block_size)",
    ),
]
