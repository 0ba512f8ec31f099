STORY = "Blocks of one slot make the sizes easy to reckon. In such a block nobody is ever interrupted half way."
CONCEPT = "What was swapped comes back to the last slot: let someone give way in the middle of a block."
EDITS = [
    (
        """((5, 2, 64, True), (4, 3, 64, False), (6, 2, 4, False), (9, 1, 3, False))""",
        """((10, 1, 64, True), (12, 1, 64, False), (12, 1, 4, False), (9, 1, 3, False))""",
    ),
    (
        """run = Run(lab, blocks=10, block_size=3)""",
        """run = Run(lab, blocks=30, block_size=1)""",
    ),
]
