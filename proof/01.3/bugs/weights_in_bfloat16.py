STORY = (
    "The values stay in the dtype of the cache, and the weights are rounded to it before they meet. Nearly equal "
    "weights become equal."
)
CONCEPT = "Scores, weights and sums are float32: what nearly cancels shows when one of them was rounded to 16 bits."
EDITS = [
    (
        """        values = value_cache[block_table[block], tokens].float()
""",
        """        values = value_cache[block_table[block], tokens]
""",
    ),
    (
        """        self.weighted_sum = self.weighted_sum * correction[..., None] + torch.einsum("hgn,nhd->hgd", weights, values)
""",
        """        self.weighted_sum = self.weighted_sum * correction[..., None] + torch.einsum("hgn,nhd->hgd", weights.to(values.dtype), values).float()
""",
    ),
]
