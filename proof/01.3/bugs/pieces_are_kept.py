STORY = "All pieces are kept until result() is asked for, and the caller fills the same tensors with the next piece."
CONCEPT = "add() is done with the tensors of a piece when it returns: the caller may fill them again."
EDITS = [
    (
        """        maximum = torch.maximum(self.maximum, scores.amax(dim=-1))
        correction = torch.exp(self.maximum - maximum)
        weights = torch.exp(scores - maximum[..., None])
        self.normaliser = self.normaliser * correction + weights.sum(dim=-1)
        self.weighted_sum = self.weighted_sum * correction[..., None] + torch.einsum("hgn,nhd->hgd", weights, values)
        self.maximum = maximum
""",
        """        self._pieces = [*getattr(self, "_pieces", []), (scores, values)]
""",
    ),
    (
        """        return self.weighted_sum / self.normaliser[..., None]
""",
        """        scores, values = torch.cat([s for s, _ in self._pieces], -1), torch.cat([v for _, v in self._pieces])
        return torch.einsum("hgn,nhd->hgd", torch.softmax(scores, -1), values)
""",
    ),
]
