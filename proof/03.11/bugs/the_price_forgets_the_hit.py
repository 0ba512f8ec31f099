STORY = "The hit is not handed on to the usual price. Its blocks are paid for as if they were to be computed again."
CONCEPT = "A request that is admitted with a prefix hit gets the hit's blocks and pays for them as usual."
EDITS = [
    (
        ("        return super().num_blocks_needed(request, num_tokens, computed_blocks) + num_copies\n"),
        ("        return super().num_blocks_needed(request, num_tokens) + num_copies\n"),
    ),
]
