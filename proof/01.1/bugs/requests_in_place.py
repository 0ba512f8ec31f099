STORY = (
    "The numbers of the requests become row offsets, in place, to save an array. The sampler, which looks up each "
    "token's request next, finds none."
)
CONCEPT = "The caller goes on using what it passed: nothing is changed in place."
EDITS = [
    (
        """    block_ids = block_tables[requests, positions // block_size].astype(np.int64)
""",
        """    requests *= block_tables.shape[1]
    block_ids = block_tables.reshape(-1)[requests + positions // block_size].astype(np.int64)
""",
    ),
]
