STORY = "The names that a failed step withdraws are counted from the first loaded token, rounded up: the block in which it lies stays in the prefix cache."
CONCEPT = "Blocks that were to be filled are not: after a failed step no request may find them in the prefix cache."
EDITS = [
    (
        "request.block_hashes[start // self.block_size : end // self.block_size]",
        "request.block_hashes[start // self.block_size : (end - 1) // self.block_size]",
    )
]
