STORY = "One block is added for the rest, also when there is no rest. A full block always has an empty one behind it."
CONCEPT = "Tokens need whole blocks: a full one needs no other behind it, one token more does."
EDITS = [
    (
        """        needed = -(-num_tokens // self.block_size)
""",
        """        needed = num_tokens // self.block_size + 1
""",
    ),
]
