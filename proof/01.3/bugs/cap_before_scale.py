STORY = "The raw product is capped, and scaled afterwards. Scores are bent far too early."
CONCEPT = "A soft cap c bends the scaled score, c * tanh(score / c), so that no score passes c."
EDITS = [
    (
        """        scores = torch.einsum("hgd,nhd->hgn", grouped, keys) * scale
""",
        """        scores = torch.einsum("hgd,nhd->hgn", grouped, keys)
""",
    ),
    (
        """            scores = soft_cap * torch.tanh(scores / soft_cap)
""",
        """            scores = soft_cap * torch.tanh(scores / soft_cap)
        scores = scores * scale
""",
    ),
]
