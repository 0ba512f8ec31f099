BASE = "small_stories"
EDITS = [
    ("for blocks in range(9, 13):", "for blocks in (9, 10):"),
    ('"why": "five of seven are not all"', '"why": "it knew seven tokens and had computed five"'),
    ("for budget in (3, 4):", "for budget in (3,):"),
]
