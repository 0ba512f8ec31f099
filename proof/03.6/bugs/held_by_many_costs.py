STORY = (
    "A learner lets a block that three or more hold cost one, so that not all hang on it. It is shared, "
    "and costs nothing."
)
CONCEPT = "A cached block that a request holds costs nothing; one in the free queue costs one free block."
EDITS = [
    (
        ("        return kv.num_blocks_needed(request, num_tokens, computed_blocks) + num_spare <= kv.num_free_blocks"),
        (
            "        num_spare += sum(block.ref_cnt > 2 for block in computed_blocks)\n"
            "        return kv.num_blocks_needed(request, num_tokens, computed_blocks) + num_spare <= "
            "kv.num_free_blocks"
        ),
    ),
]
