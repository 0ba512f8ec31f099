STORY = "free() empties the list of names that the request remembers, so a request that comes back hashes its whole prompt again."
CONCEPT = "A request is only read: its counters and its status are the scheduler's."
EDITS = [
    (
        """        self.block_pool.free_blocks(table)
""",
        """        self.block_pool.free_blocks(table)
        request.block_hashes.clear()
""",
    ),
]
