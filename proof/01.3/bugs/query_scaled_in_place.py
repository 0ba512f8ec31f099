STORY = "The query is scaled in place. It is a row of the model's own batch."
CONCEPT = "Query, caches and table are read, not changed."
EDITS = [
    (
        "    # Grouped-query",
        """    query *= scale
    # Grouped-query""",
    ),
    (
        """        scores = torch.einsum("hgd,nhd->hgn", grouped, keys) * scale
""",
        """        scores = torch.einsum("hgd,nhd->hgn", grouped, keys)
""",
    ),
]
