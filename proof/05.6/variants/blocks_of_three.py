"""Other sizes, other drafts and other texts; laws are asserted, and nothing is drawn."""

EDITS = [
    (
        "def make(lab, *, blocks=64, block_size=4, budget=64, k=4",
        "def make(lab, *, blocks=90, block_size=3, budget=50, k=4",
    ),
    ("if random.random() < 0.6 else 7", "if random.random() < 0.5 else 49_999"),
    ("run.found(request, (request.num_tokens - 1) // 4 * 4)", "run.found(request, (request.num_tokens - 1) // 3 * 3)"),
    ("for block_size in (1, 2, 3, 4):", "for block_size in (2, 3, 5):"),
    ("((9, 2), (6, 3), (20, 1))", "((10, 2), (7, 3), (18, 1))"),
    ("[6, 1, 2, 7, 8, 8, 1]", "[6, 5, 1, 2, 7, 8, 1]"),
    ("[7, 8, 8, 1])", "[7, 8, 1, 2])"),
]
