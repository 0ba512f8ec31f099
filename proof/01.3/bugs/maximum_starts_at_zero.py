STORY = (
    "The running maximum never goes below 0, as in a softmax with an extra zero. When all scores are far below "
    "it, all weights are 0."
)
CONCEPT = "exp(10,000) is infinite and exp(-10,000) is 0: only differences to the maximum go into exp."
EDITS = [
    (
        """        maximum = torch.maximum(self.maximum, scores.amax(dim=-1))
""",
        """        maximum = torch.maximum(self.maximum, scores.amax(dim=-1)).clamp(min=0)
""",
    ),
]
