STORY = "If the first token and the last one are of the same request, all are taken to be."
CONCEPT = "Whatever the batch, a slot follows from the token's own request and position."
EDITS = [
    (
        """    block_ids = block_tables[requests, positions // block_size].astype(np.int64)
""",
        """    if len(requests) and requests[0] == requests[-1]:
        requests = requests[0]
    block_ids = block_tables[requests, positions // block_size].astype(np.int64)
""",
    ),
]
