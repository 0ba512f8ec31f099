STORY = "A request that runs is given the names that it has, and none is made."
CONCEPT = "Names depend on the tokens that are known, not on how many are computed or whether it runs."
EDITS = [
    (
        """        hashes, size = request.block_hashes, self.block_size
""",
        """        hashes, size = request.block_hashes, self.block_size
        if request.status.name in ("RUNNING", "PREEMPTED"):
            return hashes
""",
    ),
]
