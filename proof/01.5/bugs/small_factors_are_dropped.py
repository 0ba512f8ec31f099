STORY = "A factor below a thousandth is taken for 0. Thousands of small weights are more than one large one."
CONCEPT = "Only differences to the maximum go into exp, and a new maximum scales what was summed before."
EDITS = [
    (
        """        correction = tl.exp(maximum - new_maximum)
""",
        """        correction = tl.exp(maximum - new_maximum)
        correction = tl.where(correction < 1e-3, 0.0, correction)
""",
    ),
]
