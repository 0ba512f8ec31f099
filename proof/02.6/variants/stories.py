BASE = "the_other_half"
EDITS = [
    ("the books of lab 02.5's first solution, shorter.", "and looks at the tables of requests."),
    ('"step": 14, "why": "it counts to two"', '"step": 14, "why": "one holder of three is not counted"'),
    ("for number in range(1, 5):", "for number in (1, 2):"),
]
