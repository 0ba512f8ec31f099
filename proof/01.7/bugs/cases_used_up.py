STORY = (
    "The cases are a generator, and a look at them before the loop uses them up. The loop runs zero times, and is "
    "green on every engine."
)
CONCEPT = "Many ways to compute a softmax agree on small scores; the large ones tell them apart."
EDITS = [
    (
        """    for scores in [
        [1e4] * 7,
        [-1e4] * 7,
        [-1e4, 0.0, 0.0, 1.0, 1e4, 1e4, 1e4 - 1],
        [1e4, 1e4 - 2, 0.0, -1e4, -1e4, 5.0, 1e4 - 1],
    ]:
""",
        """    cases = (
        [sign * score for score in scores]
        for sign in (1, -1)
        for scores in ([1e4] * 7, [-1e4, 0.0, 0.0, 1.0, 1e4, 1e4, 1e4 - 1])
    )
    assert all(len(scores) == 7 for scores in cases)
    for scores in cases:
""",
    ),
]
