STORY = "The last block is kept for a request that grows. A newcomer that would fill the memory is refused."
CONCEPT = "After any calls in any order, the memory is what they made of it."
EDITS = [
    (
        """            return False
        self.num_blocks[request_id]""",
        """            return False
        if held == 0 and len(self.num_blocks) > 1 and needed * self.block_size == self.num_slots - sum(self.num_blocks.values()) * self.block_size:
            return False
        self.num_blocks[request_id]""",
    ),
]
