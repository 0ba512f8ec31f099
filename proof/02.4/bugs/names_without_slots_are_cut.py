STORY = "Names beyond the slots are taken out of what the request remembers, and are hashed again in each step."
CONCEPT = "A request is only read: its counters and its status are the scheduler's."
EDITS = [
    (
        """        return new_blocks
""",
        """        del request.block_hashes[num_tokens // block_size + 1 :]
        return new_blocks
""",
    ),
]
