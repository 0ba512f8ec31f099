STORY = "Only the scores are masked, since a weight of 0 removes a value. It does not remove NaN."
CONCEPT = "What a row does not see is not summed: 0 times NaN is NaN."
EDITS = [
    (
        """        mask = visible[:, None] & is_dim[None, :]
""",
        """        mask = (offsets < BLOCK_SIZE)[:, None] & is_dim[None, :]
""",
    ),
]
