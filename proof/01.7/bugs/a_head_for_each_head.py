STORY = (
    "The tests have as many KV heads as query heads, or one of them. Which head of a group reads which does not "
    "matter then."
)
CONCEPT = "Attention has a definition that knows no blocks; what the blocks give is held against it."
EDITS = [
    (
        "(4, [5, 1, 3], 0, 9, 4, 2),",
        "(4, [5, 1, 3], 0, 9, 2, 2),",
    ),
    (
        "(3, [4, 0, 6, 1], 0, 12, 6, 2),",
        "(3, [4, 0, 6, 1], 0, 12, 2, 2),",
    ),
    (
        "(16, [2, 4, 1], 0, 41, 6, 3),",
        "(16, [2, 4, 1], 0, 41, 3, 3),",
    ),
    (
        "(4, [5, 1, 3], 3, 10, 4, 2),",
        "(4, [5, 1, 3], 3, 10, 4, 1),",
    ),
    (
        "query = noise(len(rows), 4, 8, seed=3)",
        "query = noise(len(rows), 2, 8, seed=3)",
    ),
]
