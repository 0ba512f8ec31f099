STORY = "An in-place exp saves a tensor. The caller's scores are weights after the call."
CONCEPT = "What a piece brings is read, not changed."
EDITS = [
    (
        """        weights = torch.exp(scores - maximum[..., None])
""",
        """        weights = scores.sub_(maximum[..., None]).exp_()
""",
    ),
]
