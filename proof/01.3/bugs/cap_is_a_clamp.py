STORY = "The score is cut off at the cap, which sounds the same. Scores near the cap come out too large."
CONCEPT = "A soft cap c bends the scaled score, c * tanh(score / c), so that no score passes c."
EDITS = [
    (
        """            scores = soft_cap * torch.tanh(scores / soft_cap)
""",
        """            scores = scores.clamp(-soft_cap, soft_cap)
""",
    ),
]
