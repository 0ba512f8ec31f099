STORY = "Windows are as long as some blocks and begin with one. To round their beginning down changes nothing."
CONCEPT = "Attention has a definition that knows no blocks; what the blocks give is held against it."
EDITS = [
    (
        "(4, [5, 1, 3], 3, 10, 4, 2),",
        "(4, [5, 1, 3], 4, 10, 4, 2),",
    ),
    (
        "(3, [4, 0, 6, 1], 5, 6, 2, 2),",
        "(3, [4, 0, 6, 1], 6, 7, 2, 2),",
    ),
    (
        "([10**9, 3, 1], 5, 12)",
        "([10**9, 3, 1], 4, 12)",
    ),
    (
        "scale=0.3, sliding_window=5)",
        "scale=0.3)",
    ),
    (
        "seen = slice(max(0, p - 4), p + 1)",
        "seen = slice(0, p + 1)",
    ),
]
