STORY = (
    "The rows are made from how many tokens each request has, as if these stood together. A batch in another "
    "order gets the slots of its neighbours."
)
CONCEPT = "Tokens may come in any order: requests[t] is the only thing that says whose token t is."
EDITS = [
    (
        """    block_ids = block_tables[requests, positions // block_size].astype(np.int64)
""",
        """    counts = np.bincount(requests, minlength=len(block_tables))
    rows = np.repeat(np.arange(len(block_tables)), counts)
    block_ids = block_tables[rows, positions // block_size].astype(np.int64)
""",
    ),
]
