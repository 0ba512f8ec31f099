STORY = (
    "The columns are worked out once for each array of positions. The caller fills the same array for the next step."
)
CONCEPT = (
    "Each step stands alone: the caller keeps the last one's slots, and writes the next step into the same arrays."
)
EDITS = [
    (
        """    block_ids = block_tables[requests, positions // block_size].astype(np.int64)
""",
        """    if to_slots.__dict__.get("last") is not positions:
        to_slots.last, to_slots.columns = positions, positions // block_size
    block_ids = block_tables[requests, to_slots.columns].astype(np.int64)
""",
    ),
]
