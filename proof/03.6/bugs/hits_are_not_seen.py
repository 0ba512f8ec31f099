STORY = (
    "A learner does not pass the hit on. A request whose prefix others hold is refused for blocks that it does "
    "not need."
)
CONCEPT = "A cached block that a request holds costs nothing; one in the free queue costs one free block."
EDITS = [
    (
        "num_tokens, computed_blocks) +",
        "num_tokens) +",
    ),
]
