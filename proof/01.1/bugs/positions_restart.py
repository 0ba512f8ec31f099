STORY = (
    "The runner counts the tokens of a step from 0 for each request. A decode overwrites the first key of its "
    "own prompt (seen with cached prefixes, where RoPE restarted too)."
)
CONCEPT = "A chunk goes on where the last one ended: the position counts in the sequence, not in the batch."
EDITS = [
    (
        """    block_ids = block_tables[requests, positions // block_size].astype(np.int64)
""",
        """    index = np.array([np.sum(requests[:t] == requests[t]) for t in range(len(requests))], np.int64)
    block_ids = block_tables[requests, index // block_size].astype(np.int64)
""",
    ),
    (
        "    return block_ids * block_size + positions % block_size",
        "    return block_ids * block_size + index % block_size",
    ),
]
