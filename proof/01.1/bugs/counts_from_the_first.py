STORY = "Positions are counted from the smallest one of the step, as if nothing had been computed before."
CONCEPT = "A chunk goes on where the last one ended: the position counts in the sequence, not in the batch."
EDITS = [
    (
        """    block_ids = block_tables[requests, positions // block_size].astype(np.int64)
""",
        """    positions = positions - (positions.min() if len(positions) else 0)
    block_ids = block_tables[requests, positions // block_size].astype(np.int64)
""",
    ),
]
