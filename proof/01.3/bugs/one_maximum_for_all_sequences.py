STORY = (
    "The maximum is kept by the class, so that it needs no room in each softmax. A second sequence begins with the"
    " first one's."
)
CONCEPT = "Two softmaxes know nothing of each other."
EDITS = [
    (
        """        maximum = torch.maximum(self.maximum, scores.amax(dim=-1))
""",
        """        maximum = torch.maximum(self.maximum, scores.amax(dim=-1))
        seen = type(self).__dict__.get('_seen')
        if seen is not None and seen.shape == maximum.shape:
            maximum = torch.maximum(maximum, seen)
        type(self)._seen = maximum
""",
    ),
]
