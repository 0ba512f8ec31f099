STORY = "Each block's sum is rounded to the dtype of the cache before it is added. What nearly cancels is lost."
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
        """        self.weighted_sum = self.weighted_sum * correction[..., None] + torch.einsum("hgn,nhd->hgd", weights, values.float()).to(values.dtype).float()
""",
    ),
]
