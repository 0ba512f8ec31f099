STORY = "The price is the copy or the new blocks, whichever is more. It is both."
CONCEPT = "The price counts a block for each copy, and asking for it changes nothing."
EDITS = [
    (
        ("        return super().num_blocks_needed(request, num_tokens, computed_blocks) + num_copies\n"),
        ("        return max(super().num_blocks_needed(request, num_tokens, computed_blocks), num_copies)\n"),
    ),
]
