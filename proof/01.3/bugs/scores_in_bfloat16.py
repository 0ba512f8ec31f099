STORY = (
    "The product of query and key is taken in the dtype of the cache. A product near 256 is off by up to 1, "
    "which changes its weight by a third."
)
CONCEPT = "Scores, weights and sums are float32: what nearly cancels shows when one of them was rounded to 16 bits."
EDITS = [
    (
        """    grouped = query.float().view(num_kv_heads, -1, head_dim)
""",
        """    grouped = query.view(num_kv_heads, -1, head_dim)
""",
    ),
    (
        """        keys = key_cache[block_table[block], tokens].float()
""",
        """        keys = key_cache[block_table[block], tokens]
""",
    ),
    (
        """        scores = torch.einsum("hgd,nhd->hgn", grouped, keys) * scale
""",
        """        scores = torch.einsum("hgd,nhd->hgn", grouped, keys).float() * scale
""",
    ),
]
