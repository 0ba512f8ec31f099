STORY = (
    "To hash only what is new, the naming asks the lookup how much is known, and the lookup asks the naming "
    "for names. Each waits for the other, until the stack is full."
)
CONCEPT = "A name is made once: a decode step hashes what is new, not the whole prompt again."
EDITS = [
    (
        """        hashes, size = request.block_hashes, self.block_size
""",
        """        hashes, size = request.block_hashes, self.block_size
        if hashes and self.get_computed_blocks(request)[1] >= len(hashes) * size:
            return hashes
""",
    ),
]
