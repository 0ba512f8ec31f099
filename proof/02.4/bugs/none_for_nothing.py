STORY = (
    "An empty result is turned into None, which means that there is no room. A request whose last block has "
    "room is preempted, comes back, and is preempted again."
)
CONCEPT = "A request that grows token by token gets a block when one is full, and not sooner."
EDITS = [
    (
        """        return new_blocks
""",
        """        return new_blocks or None
""",
    ),
]
