STORY = "The price is that of new tokens alone. When no block is free the copy fails in the middle of the step."
CONCEPT = "The price counts a block for each copy, and asking for it changes nothing."
EDITS = [
    (
        ("        return super().num_blocks_needed(request, num_tokens, computed_blocks) + num_copies\n"),
        ("        return super().num_blocks_needed(request, num_tokens, computed_blocks)\n"),
    ),
]
