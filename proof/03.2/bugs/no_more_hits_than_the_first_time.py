STORY = (
    "A learner lets a request that comes back find no more than it found at its first admission. What it "
    "computed itself is computed again."
)
CONCEPT = "In any run a step follows from the two lists, the free blocks and the budget, and from no step before."
EDITS = [
    (
        "computed_blocks, num_computed = kv.get_computed_blocks(request)",
        (
            "computed_blocks, num_computed = kv.get_computed_blocks(request)\n"
            "            if request.num_preemptions:\n"
            "                computed_blocks = computed_blocks[: request.num_cached_tokens // kv.block_size]\n"
            "                num_computed = len(computed_blocks) * kv.block_size"
        ),
    ),
]
