STORY = (
    "Each piece brings its own maximum and the old one is forgotten. The correction grows without bound when "
    "scores fall."
)
CONCEPT = "The maximum is that of all scores so far: a later piece never lowers it."
EDITS = [
    (
        """        maximum = torch.maximum(self.maximum, scores.amax(dim=-1))
""",
        """        maximum = scores.amax(dim=-1)
""",
    ),
]
