STORY = "The pools are large enough. Nobody ever gives way, so nothing that follows from it is seen."
CONCEPT = "A preempted request keeps its output: compare whole outputs with a truth from before the run."
EDITS = [
    (
        """((5, 2, 64, True), (4, 3, 64, False), (6, 2, 4, False), (9, 1, 3, False))""",
        """((50, 2, 64, True), (40, 3, 64, False), (60, 2, 4, False), (90, 1, 3, False))""",
    ),
    (
        """blocks=10, block_size=3""",
        """blocks=64, block_size=3""",
    ),
    (
        """blocks=8, block_size=2, budget=5""",
        """blocks=64, block_size=2, budget=5""",
    ),
    (
        """blocks=19, block_size=1""",
        """blocks=64, block_size=1""",
    ),
]
