STORY = "Division of whole numbers rounds down, and the rest is forgotten. The tokens of the last block have no slot."
CONCEPT = "Tokens need whole blocks: a full one needs no other behind it, one token more does."
EDITS = [
    (
        """        needed = -(-num_tokens // self.block_size)
""",
        """        needed = num_tokens // self.block_size
""",
    ),
]
