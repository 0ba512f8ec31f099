# === other_sizes
"""The same laws with other ranks, lengths and blocks."""

EDITS = [
    ("for size in (1, 2, 3):\n        layer, x", "for size in (1, 3, 2):\n        layer, x"),
    ("((2, 100), (3, 70), (4, 130))", "((2, 90), (4, 200), (5, 33))"),
    ("((1, 3), (2, 5), (3, 7), (4, 2))", "((2, 4), (5, 9), (3, 3), (1, 1))"),
    ("for block_size in (1, 2, 4):", "for block_size in (2, 3, 5):"),
]


# === other_texts
"""Outputs are compared one by one, and loads are worked out by hand."""

EDITS = [
    ("((8, 2, 4), (8, 4, 2), (6, 1, 3), (12, 3, 6))", "((16, 2, 8), (4, 4, 4), (10, 5, 5))"),
    ("for _ in range(6):", "for _ in range(9):"),
    (
        """
                see("outputs by pair", [list(row) for row in out], equals=expected)
""",
        """
                for pair, row in enumerate(out):
                    see(f"output of pair {pair}", list(row), equals=expected[pair])
""",
    ),
]
