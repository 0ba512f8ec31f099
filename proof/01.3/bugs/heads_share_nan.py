STORY = "Heads are told apart by a matrix of zeros and ones. A NaN in one KV head reaches all of them."
CONCEPT = "NaN in one KV head stays there: the query heads of other KV heads do not see it."
EDITS = [
    (
        """        scores = torch.einsum("hgd,nhd->hgn", grouped, keys) * scale
""",
        """        apart = torch.eye(num_kv_heads)
        scores = torch.einsum("hgd,nkd,hk->hgn", grouped, keys, apart) * scale
""",
    ),
]
