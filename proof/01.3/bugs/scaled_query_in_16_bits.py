STORY = "The query is scaled before it is widened. What nearly cancels does not."
CONCEPT = "Scores, weights and sums are float32: what nearly cancels shows when one of them was rounded to 16 bits."
EDITS = [
    (
        "grouped = query.float().view",
        "grouped = (query * scale).float().view",
    ),
    (
        """        scores = torch.einsum("hgd,nhd->hgn", grouped, keys) * scale
""",
        """        scores = torch.einsum("hgd,nhd->hgn", grouped, keys)
""",
    ),
]
