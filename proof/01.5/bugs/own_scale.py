STORY = "The kernel computes 1 / sqrt(HEAD_DIM) and ignores the argument. Models with another scale are wrong."
CONCEPT = "A score is query times key times the scale that was given."
EDITS = [
    (
        """        scores = tl.sum(keys * query[None, :], axis=1) * scale
""",
        """        scores = tl.sum(keys * query[None, :], axis=1) * (1.0 / HEAD_DIM**0.5)
""",
    ),
]
