STORY = "A head has 64 numbers at most."
CONCEPT = "No place out of the tensors is read or written, and no two programs write the same one."
EDITS = [
    (
        """    is_dim = dims < HEAD_DIM""",
        """    is_dim = dims < min(HEAD_DIM, 64)""",
    ),
]
