# === other_sizes
"""The same laws in pools, chunks and tables of other sizes."""

EDITS = [
    ('zip("abcd", (3, 17, 8, 25))', 'zip("abcd", (21, 2, 13, 9))'),
    ("for budget in (3, 5, 9):", "for budget in (2, 4, 7, 11):"),
    ("for blocks in range(6, 11):", "for blocks in range(6, 13):"),
    ("(4, 2, 3, 1, 4, 1):", "(4, 1, 3, 2, 1, 4, 2):"),
    ("for seed in range(20):", "for seed in range(30, 45):"),
]


# === a_table_for_each_key
"""The choice is asked by hand, and rows come and go in an order that was thought out."""

EDITS = [
    (
        """
        for step in ([2], [2, 2], [2, 2, 2], [1, 3], [3], [1], [7], [8], [9], [2, 2, 2, 2, 2], [], [4, 2, 2]):
""",
        """
        for step in ([1, 3], [5], [2, 2, 2], [9], [6], [2], [4], []):
""",
    ),
    ('rng.choice(("remove", "advance", "extend"))', 'rng.choice(("remove", "remove", "extend", "advance"))'),
    ("see, sizes = check(), [2, 4, 8]", "see, sizes = check(), [2, 4, 6, 8]"),
]
