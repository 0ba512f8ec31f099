STORY = "The raw product is capped and then scaled. Scores are bent too early."
CONCEPT = "A soft cap c bends the scaled score, c * tanh(score / c)."
EDITS = [
    (
        """        scores = tl.sum(keys * query[None, :], axis=1) * scale
""",
        """        scores = tl.sum(keys * query[None, :], axis=1)
""",
    ),
    (
        """            scores = soft_cap * tanh(scores / soft_cap)
""",
        """            scores = soft_cap * tanh(scores / soft_cap) * scale
        else:
            scores = scores * scale
""",
    ),
]
