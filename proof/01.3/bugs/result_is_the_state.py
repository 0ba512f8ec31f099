STORY = "result() divides its own sums, and hands out the tensor in which it goes on adding. The caller changes it."
CONCEPT = "result() only reads: more pieces may follow, and the same answer comes twice."
EDITS = [
    (
        """        return self.weighted_sum / self.normaliser[..., None]
""",
        """        self.weighted_sum = self.weighted_sum / self.normaliser[..., None]
        self.maximum = self.maximum + torch.log(self.normaliser)
        self.normaliser = torch.ones_like(self.normaliser)
        return self.weighted_sum
""",
    ),
]
