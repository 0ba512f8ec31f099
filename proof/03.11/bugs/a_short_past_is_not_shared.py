STORY = (
    "Who has not filled a block has nothing to share, as in the prefix cache. A child of a short prompt reads nothing."
)
CONCEPT = "A fork takes no block: the child's table reads as its parent's."
EDITS = [
    (
        ("        if table:\n"),
        ("        if parent.num_computed_tokens >= self.block_size:\n"),
    ),
]
