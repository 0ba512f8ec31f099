STORY = (
    "Names are made at the first call and never again. A request that generates a thousand tokens publishes "
    "its prompt, and after a preemption computes all of its output again."
)
CONCEPT = "A name is made once: a decode step hashes what is new, not the whole prompt again."
EDITS = [
    (
        """        hashes, size = request.block_hashes, self.block_size
""",
        """        hashes, size = request.block_hashes, self.block_size
        if hashes:
            return hashes
""",
    ),
]
