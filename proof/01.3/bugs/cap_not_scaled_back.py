STORY = "tanh(score / cap) is not multiplied by the cap again. All scores lie between -1 and 1."
CONCEPT = "A soft cap c bends the scaled score, c * tanh(score / c), so that no score passes c."
EDITS = [
    (
        """            scores = soft_cap * torch.tanh(scores / soft_cap)
""",
        """            scores = torch.tanh(scores / soft_cap)
""",
    ),
]
