STORY = "Rounding up is adding 0.99 and cutting off. One token more than a block of 1,024 is less than that."
CONCEPT = "Tokens need whole blocks: a full one needs no other behind it, one token more does."
EDITS = [
    (
        """        needed = -(-num_tokens // self.block_size)
""",
        """        needed = int(num_tokens / self.block_size + 0.99)
""",
    ),
]
