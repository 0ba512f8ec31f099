STORY = (
    "One maximum over the whole tensor is simpler, and any constant may be subtracted. A head far below it has "
    "only zeros left, and divides 0 by 0."
)
CONCEPT = "Each head has a maximum of its own: one head's 10,000 must not drown another head's 0."
EDITS = [
    (
        """        maximum = torch.maximum(self.maximum, scores.amax(dim=-1))
""",
        """        maximum = torch.maximum(self.maximum, scores.amax()).amax().expand_as(self.maximum)
""",
    ),
]
