STORY = "A learner asks whether the watermark is free before, not after. The newcomer takes what was to stay."
CONCEPT = "While a request runs, admission leaves a share of all blocks free; when none runs, it does not."
EDITS = [
    (
        "return kv.num_blocks_needed(request, num_tokens, computed_blocks) + num_spare <= kv.num_free_blocks",
        (
            "num_needed = kv.num_blocks_needed(request, num_tokens, computed_blocks)\n"
            "        return max(num_needed, num_spare) <= kv.num_free_blocks"
        ),
    ),
]
