STORY = "A learner divides and drops the remainder. The last, partly filled block is not counted."
CONCEPT = "A request is admitted if the blocks for all that it knows are free now, to the last one."
EDITS = [
    (
        "kv.num_blocks_needed(request, num_tokens, computed_blocks)",
        "num_tokens // kv.block_size",
    ),
]
