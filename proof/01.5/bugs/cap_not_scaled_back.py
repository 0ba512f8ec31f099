STORY = "The result of tanh is not multiplied by the cap. All scores lie between -1 and 1."
CONCEPT = "A soft cap c bends the scaled score, c * tanh(score / c)."
EDITS = [
    (
        """            scores = soft_cap * tanh(scores / soft_cap)
""",
        """            scores = tanh(scores / soft_cap)
""",
    ),
]
