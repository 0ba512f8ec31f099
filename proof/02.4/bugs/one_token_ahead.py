STORY = (
    "A decode step takes the slot for its next token as well, so that it has it. A request that has just "
    "filled a block holds an empty one, and may be preempted for want of it."
)
CONCEPT = "A request that grows token by token gets a block when one is full, and not sooner."
EDITS = [
    (
        "        if num_slots > len(",
        """        reserved = num_tokens + (num_new_tokens == 1)
        if reserved > len(""",
    ),
    (
        """num_blocks_needed(request, num_slots, computed_blocks)
""",
        """num_blocks_needed(request, reserved, computed_blocks)
""",
    ),
]
