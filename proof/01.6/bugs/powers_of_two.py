STORY = "Rounding up is done with a mask of bits, which is right as long as the size of a block is a power of two."
CONCEPT = "Tokens need whole blocks: a full one needs no other behind it, one token more does."
EDITS = [
    (
        """        needed = -(-num_tokens // self.block_size)
""",
        """        needed = ((num_tokens + self.block_size - 1) & ~(self.block_size - 1)) // self.block_size
""",
    ),
]
