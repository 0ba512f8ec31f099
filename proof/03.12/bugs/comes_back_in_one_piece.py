STORY = "The budget is large wherever the pool is small. A victim comes back in one piece, and there is no inner chunk."
CONCEPT = "An inner chunk is silent, after the prompt too: let a victim come back in small pieces."
EDITS = [
    (
        """((5, 2, 64, True), (4, 3, 64, False), (6, 2, 4, False), (9, 1, 3, False))""",
        """((5, 2, 64, True), (4, 3, 64, False), (6, 2, 64, False), (9, 1, 64, False))""",
    ),
]
