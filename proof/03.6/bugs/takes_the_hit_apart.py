STORY = (
    "A learner takes the blocks out of the hit while it prices them. Those that are admitted get the "
    "tokens of the hit without its blocks."
)
CONCEPT = (
    "Asking changes nothing: not the request, not the lists, not the blocks of the hit or the order of the free ones."
)
EDITS = [
    (
        "return kv.num_blocks_needed(request, num_tokens, computed_blocks) + num_spare <= kv.num_free_blocks",
        (
            "needed = kv.num_blocks_needed(request, num_tokens, computed_blocks)\n"
            "        while needed > kv.num_free_blocks and computed_blocks:\n"
            "            computed_blocks.pop()\n"
            "        return needed + num_spare <= kv.num_free_blocks"
        ),
    ),
]
