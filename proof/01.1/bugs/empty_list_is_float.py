STORY = (
    "Slots are collected in a list and made an array at the end. An empty list becomes float64, and the first "
    "step without tokens fails far away."
)
CONCEPT = "Slots are an int64 array, be they many, few or none."
EDITS = [
    (
        """    block_ids = block_tables[requests, positions // block_size].astype(np.int64)
""",
        """    block_ids = block_tables[requests, positions // block_size].tolist()
""",
    ),
    (
        "    return block_ids * block_size + positions % block_size",
        "    return np.array([b * block_size + int(p) % block_size for b, p in zip(block_ids, positions)])",
    ),
]
