STORY = "The column is kept in 8 bits, since no test had more than a few blocks. Column 256 is column 0 again."
CONCEPT = "Whatever the batch, a slot follows from the token's own request and position."
EDITS = [
    (
        "positions // block_size]",
        "(positions // block_size).astype(np.uint8)]",
    ),
]
