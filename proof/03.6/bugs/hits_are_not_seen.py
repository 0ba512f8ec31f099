STORY = (
    "A learner does not pass the hit on. A request whose prefix others hold is refused for blocks that it does "
    "not need."
)
CONCEPT = "A cached block that somebody holds costs nothing; one that lies in the free queue costs itself."
EDITS = [
    (
        "num_tokens, computed_blocks) +",
        "num_tokens) +",
    ),
]
