STORY = (
    "The requests of the step are numbered anew, without those that have no token. All rows behind such a "
    "request move up by one."
)
CONCEPT = "A request without a token in this step keeps its row, so the rows after it keep their numbers."
EDITS = [
    (
        """    block_ids = block_tables[requests, positions // block_size].astype(np.int64)
""",
        """    rows = np.unique(requests, return_inverse=True)[1]
    block_ids = block_tables[rows, positions // block_size].astype(np.int64)
""",
    ),
]
