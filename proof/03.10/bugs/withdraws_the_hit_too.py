STORY = "A learner withdraws all that the request has in common with the failed step. What was found was there before."
CONCEPT = "Blocks that were to be filled are not: after a failed step no request may find them in the prefix cache."
EDITS = [
    (
        "request.block_hashes[start // self.block_size : end // self.block_size]",
        "request.block_hashes[: end // self.block_size]",
    ),
]
