STORY = "An offset is small, so it is kept in a byte. A block may have more than 256 slots."
CONCEPT = "A block is full after block_size tokens, whatever that number is; the next token opens the next block."
EDITS = [
    (
        """    return block_ids * block_size + positions % block_size
""",
        """    return block_ids * block_size + (positions % block_size).astype(np.uint8)
""",
    ),
]
