STORY = (
    "The model says 100 at every place. A token that comes twice, or from the wrong place, looks like the right one."
)
CONCEPT = "A schedule may cost time, never a token: let a model say something else at every place."
EDITS = [
    (
        """    return 1 + sum(place * token for place, token in enumerate(tokens, start=1)) % 9973
""",
        """    return 100
""",
    ),
]
