STORY = "A factor below a thousandth is taken for 0. Thousands of small weights are more than one large one."
CONCEPT = "However the scores are cut, the result is one softmax over all of them."
EDITS = [
    (
        """        correction = torch.exp(self.maximum - maximum)
""",
        """        correction = torch.exp(self.maximum - maximum)
        correction = torch.where(correction > 1e-3, correction, 0 * correction)
""",
    ),
]
