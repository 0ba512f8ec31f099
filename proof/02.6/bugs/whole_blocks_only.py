STORY = "Requests give way where a block ends, so that half a block is never in doubt."
CONCEPT = "What was overwritten must not be found: take a block, and ask for what was in it."
EDITS = [
    (
        "range(1, 12)",
        "(4, 8)",
    ),
]
