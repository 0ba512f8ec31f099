STORY = (
    "Scores and values that are no finite numbers are replaced, so that no NaN comes out. The error upstream is hidden."
)
CONCEPT = "What the query sees is not mended: NaN and infinities show in the result."
EDITS = [
    (
        """        scores = torch.einsum("hgd,nhd->hgn", grouped, keys) * scale
""",
        """        scores = torch.nan_to_num(torch.einsum("hgd,nhd->hgn", grouped, keys)) * scale
        values = torch.nan_to_num(values)
""",
    ),
]
