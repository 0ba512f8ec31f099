STORY = "An even block size is taken for a power of two, and the offset for the last bits of the position."
CONCEPT = "A block is full after block_size tokens, whatever that number is; the next token opens the next block."
EDITS = [
    (
        """    return block_ids * block_size + positions % block_size
""",
        """    is_odd = block_size % 2
    return block_ids * block_size + (positions % block_size if is_odd else positions & (block_size - 1))
""",
    ),
]
