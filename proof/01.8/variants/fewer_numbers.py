BASE = "by_hand"
EDITS = [
    ("numbers that can be worked out by hand", "a few numbers that can be worked out by hand"),
    ("[0, 2, 1, 3], [80, -20, -80]", "[80, -20, -80]"),
    ('"why": "8 keys weigh as much as one"', '"why": "each of the first eight has a ninth of the weight"'),
]
