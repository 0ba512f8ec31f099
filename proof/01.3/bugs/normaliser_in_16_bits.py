STORY = (
    "The sum of the weights is kept in the dtype of the values. bfloat16 counts to 256, and then one more changes "
    "nothing."
)
CONCEPT = "Scores, weights and sums are float32: what nearly cancels shows when one of them was rounded to 16 bits."
EDITS = [
    (
        """        self.normaliser = self.normaliser * correction + weights.sum(dim=-1)
""",
        """        self.normaliser = (self.normaliser * correction + weights.sum(dim=-1)).to(values.dtype).float()
""",
    ),
    (
        """        values = value_cache[block_table[block], tokens].float()
""",
        """        values = value_cache[block_table[block], tokens]
""",
    ),
    (
        """        self.weighted_sum = self.weighted_sum * correction[..., None] + torch.einsum("hgn,nhd->hgd", weights, values)
""",
        """        self.weighted_sum = self.weighted_sum * correction[..., None] + torch.einsum("hgn,nhd->hgd", weights, values.float())
""",
    ),
]
