STORY = "The first block is read as a whole, and what lies before the window gets the weight 0. 0 times NaN is NaN."
CONCEPT = "What the query does not see is not read: NaN in the slots, ids of no block in the table."
EDITS = [
    (
        """        tokens = slice(max(begin - block_start, 0), min(end - block_start, block_size))
""",
        """        tokens = slice(0, min(end - block_start, block_size))
""",
    ),
    (
        """        scores = torch.einsum("hgd,nhd->hgn", grouped, keys) * scale
""",
        """        scores = torch.einsum("hgd,nhd->hgn", grouped, keys) * scale
        scores[..., : max(begin - block_start, 0)] = -torch.inf
""",
    ),
]
