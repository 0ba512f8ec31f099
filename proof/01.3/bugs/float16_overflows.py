STORY = "Query and keys are multiplied in their own dtype. float16 ends at 65,504, and a product above it is infinite."
CONCEPT = "Scores, weights and sums are float32: what nearly cancels shows when one of them was rounded to 16 bits."
EDITS = [
    (
        """        scores = torch.einsum("hgd,nhd->hgn", grouped, keys) * scale
""",
        """        scores = torch.einsum("hgd,nhd->hgn", grouped.to(query.dtype), keys.to(query.dtype)).float() * scale if query.dtype == torch.float16 else torch.einsum("hgd,nhd->hgn", grouped, keys) * scale
""",
    ),
]
