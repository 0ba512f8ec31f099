STORY = (
    "A learner takes the hit off the tokens and gives it to the count as well, which takes it off again. "
    "A request with a hit is admitted and fails."
)
CONCEPT = "In any run both rules answer from the state of the moment, whatever they answered before."
EDITS = [
    (
        "return kv.num_blocks_needed(request, num_tokens, computed_blocks) + num_spare <= kv.num_free_blocks",
        (
            "rest = max(1, num_tokens - len(computed_blocks) * kv.block_size)\n"
            "        return kv.num_blocks_needed(request, rest, computed_blocks) + num_spare <= kv.num_free_blocks"
        ),
    ),
]
