STORY = "exp is taken of the score itself, as in the formula. exp(10,000) is infinite."
CONCEPT = "Only differences to the maximum go into exp, and a new maximum scales what was summed before."
EDITS = [
    (
        """        new_maximum = tl.maximum(maximum, tl.max(scores, axis=0))
""",
        """        new_maximum = 0.0
""",
    ),
    (
        """    maximum, normaliser = -float("inf"), 0.0
""",
        """    maximum, normaliser = 0.0, 0.0
""",
    ),
]
