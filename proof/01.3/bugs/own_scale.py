STORY = (
    "1 / sqrt(head_dim) is computed here and the argument ignored. It is right for most models, and wrong for "
    "those with a scale of their own."
)
CONCEPT = "A score is query times key times the scale that was given; not every model takes 1 / sqrt(head_dim)."
EDITS = [
    (
        """        scores = torch.einsum("hgd,nhd->hgn", grouped, keys) * scale
""",
        """        scores = torch.einsum("hgd,nhd->hgn", grouped, keys) * head_dim**-0.5
""",
    ),
]
