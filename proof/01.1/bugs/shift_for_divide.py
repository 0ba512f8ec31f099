STORY = "An engine divides by shifting, since its blocks always had 16 tokens. With blocks of 3 the shift divides by 2."
CONCEPT = "A block is full after block_size tokens, whatever that number is; the next token opens the next block."
EDITS = [
    (
        """    block_ids = block_tables[requests, positions // block_size].astype(np.int64)
""",
        """    shift = block_size.bit_length() - 1
    block_ids = block_tables[requests, positions >> shift].astype(np.int64)
""",
    ),
    (
        "    return block_ids * block_size + positions % block_size",
        "    return (block_ids << shift) + (positions & (block_size - 1))",
    ),
]
