STORY = "A copy of the table is kept for as long as its first row is the same. The other rows change, too."
CONCEPT = (
    "Each step stands alone: the caller keeps the last one's slots, and writes the next step into the same arrays."
)
EDITS = [
    (
        """    block_ids = block_tables[requests, positions // block_size].astype(np.int64)
""",
        """    key = (block_tables.shape, block_tables[0].tobytes())
    if to_slots.__dict__.get("key") != key:
        to_slots.key, to_slots.table = key, block_tables.copy()
    block_ids = to_slots.table[requests, positions // block_size].astype(np.int64)
""",
    ),
]
