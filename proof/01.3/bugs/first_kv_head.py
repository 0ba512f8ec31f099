STORY = "Written for one KV head: every query head reads KV head 0. It passes with multi-query attention."
CONCEPT = "Query heads of a group are neighbours and share a KV head: head h reads h // group_size."
EDITS = [
    (
        """        scores = torch.einsum("hgd,nhd->hgn", grouped, keys) * scale
""",
        """        scores = torch.einsum("hgd,nhd->hgn", grouped, keys[:, :1].expand_as(keys)) * scale
""",
    ),
]
