STORY = (
    "Going from the tail, a learner stops at the first block that others hold, since everything before it is "
    "shared too. True, but the counts before it are never lowered, and those blocks never become free."
)
CONCEPT = "A shared block is free when the last holder lets go, not before."
EDITS = [
    (
        """                (useless if block.block_hash is None else cached).append(block)
""",
        """                (useless if block.block_hash is None else cached).append(block)
            else:
                break
""",
    ),
]
