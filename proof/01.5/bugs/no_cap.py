STORY = "The cap is an option of few models, and was left for later. It was not written at all."
CONCEPT = "A soft cap c bends the scaled score, c * tanh(score / c)."
EDITS = [
    (
        """            scores = soft_cap * tanh(scores / soft_cap)
""",
        """            scores = scores * 1.0
""",
    ),
]
