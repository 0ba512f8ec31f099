STORY = "A scale of 0 is taken for one that was not given, and 1 / sqrt(head_dim) takes its place."
CONCEPT = "A score is query times key times the scale that was given; not every model takes 1 / sqrt(head_dim)."
EDITS = [
    (
        """        scores = torch.einsum("hgd,nhd->hgn", grouped, keys) * scale
""",
        """        scores = torch.einsum("hgd,nhd->hgn", grouped, keys) * (scale or head_dim**-0.5)
""",
    ),
]
