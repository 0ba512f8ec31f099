STORY = "A learner admits whatever comes and leaves it to allocate_slots to refuse. The chunk fits, the rest does not."
CONCEPT = "A request is admitted if the blocks for all that it knows are free now, to the last one."
EDITS = [
    (
        "return kv.num_blocks_needed(request, num_tokens, computed_blocks) + num_spare <= kv.num_free_blocks",
        "return True",
    ),
]
