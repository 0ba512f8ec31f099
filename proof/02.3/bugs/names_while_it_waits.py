STORY = "Names are only made while a request waits, so what it generates is never found."
CONCEPT = "Names depend on the tokens that are known, not on how many are computed or whether it runs."
EDITS = [
    (
        """        hashes, size = request.block_hashes, self.block_size
""",
        """        hashes, size = request.block_hashes, self.block_size
        if hashes and request.status.name != "WAITING":
            return hashes
""",
    ),
]
