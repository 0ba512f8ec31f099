STORY = "A head has 64 numbers at most."
CONCEPT = "Every place in sight is read, each of the output is written by one program, and nothing else is touched."
EDITS = [
    (
        """    is_dim = dims < HEAD_DIM""",
        """    is_dim = dims < min(HEAD_DIM, 64)""",
    ),
]
