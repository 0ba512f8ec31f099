STORY = "A score of 50 looks large beside those of the other tests. float32 holds exp(50) and exp(-50) with ease."
CONCEPT = "Many ways to compute a softmax agree on small scores; the large ones tell them apart."
EDITS = [
    (
        """        [1e4] * 7,
        [-1e4] * 7,
        [-1e4, 0.0, 0.0, 1.0, 1e4, 1e4, 1e4 - 1],
        [1e4, 1e4 - 2, 0.0, -1e4, -1e4, 5.0, 1e4 - 1],
""",
        """        [50.0] * 7,
        [-50.0] * 7,
        [-50.0, 0.0, 0.0, 1.0, 50.0, 50.0, 49.0],
        [50.0, 48.0, 0.0, -50.0, -50.0, 5.0, 49.0],
""",
    ),
]
