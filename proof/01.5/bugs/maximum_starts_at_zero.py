STORY = "The running maximum begins at 0 instead of minus infinity. When all scores are far below, all weights are 0."
CONCEPT = "Only differences to the maximum go into exp, and a new maximum scales what was summed before."
EDITS = [
    (
        """    maximum, normaliser = -float("inf"), 0.0
""",
        """    maximum, normaliser = 0.0, 0.0
""",
    ),
]
