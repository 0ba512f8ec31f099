STORY = "The last block is read as if it were full. Keys of tokens to come, or of the block's last owner, take part."
CONCEPT = "The last block may be full or not: positions up to end - 1 count, and end does not."
EDITS = [
    (
        """        tokens = slice(max(begin - block_start, 0), min(end - block_start, block_size))
""",
        """        tokens = slice(max(begin - block_start, 0), block_size)
""",
    ),
]
