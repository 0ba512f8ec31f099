STORY = "The names of a request that was preempted are taken for complete, though it goes on to grow."
CONCEPT = "Names depend on the tokens that are known, not on how many are computed or whether it runs."
EDITS = [
    (
        "        hashes, size = request.block_hashes, self.block_size\n",
        "        hashes, size = request.block_hashes, self.block_size\n        if hashes and request.num_preemptions:\n            return hashes\n",
    )
]
