STORY = (
    "Maximum and normaliser become one number, the logarithm of the sum, as FlashAttention hands it to the "
    "backward pass. Beside 10,000 float32 rounds it by 0.0005, and each weight with it."
)
CONCEPT = "exp(10,000) is infinite and exp(-10,000) is 0: only differences to the maximum go into exp."
EDITS = [
    (
        """        self.maximum = maximum
""",
        """        self.maximum = maximum + torch.log(self.normaliser)
        self.weighted_sum = self.weighted_sum * torch.exp(maximum - self.maximum)[..., None]
        self.normaliser = torch.ones_like(self.normaliser)
""",
    ),
]
