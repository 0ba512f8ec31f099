STORY = (
    "attend_one sums exp(score) itself, as in the formula, and leaves the online softmax alone. exp(10,000) is "
    "infinite."
)
CONCEPT = "exp(10,000) is infinite and exp(-10,000) is 0: only differences to the maximum go into exp."
EDITS = [
    (
        """    softmax = OnlineSoftmax(num_kv_heads, grouped.shape[1], head_dim, query.device)
""",
        """    total, weighted = 0.0, 0.0
""",
    ),
    (
        """        softmax.add(scores, values)
""",
        """        weights = torch.exp(scores)
        total = total + weights.sum(dim=-1)
        weighted = weighted + torch.einsum("hgn,nhd->hgd", weights, values)
""",
    ),
    (
        "    return softmax.result().view(-1, head_dim).to(query.dtype)",
        "    return (weighted / total[..., None]).view(-1, head_dim).to(query.dtype)",
    ),
]
