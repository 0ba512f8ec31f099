STORY = "A chunk of T tokens whose first and last positions are T - 1 apart is taken to be in order."
CONCEPT = "Tokens of one request may come in any order, too: each has the slot of its own position."
EDITS = [
    (
        """    block_ids = block_tables[requests, positions // block_size].astype(np.int64)
""",
        """    num = len(positions)
    if num and requests.min() == requests.max() and positions[-1] - positions[0] == num - 1:
        positions = np.arange(positions[0], positions[0] + num)
    block_ids = block_tables[requests, positions // block_size].astype(np.int64)
""",
    ),
]
