STORY = (
    "popleft_n quietly takes no more than there are. The caller asked for four, gets three, and writes the "
    "fourth block of the prompt nowhere."
)
CONCEPT = "Too many asked for: ValueError, and not one block is taken."
EDITS = [
    (
        """        if num_blocks > self.num_free_blocks:
            raise ValueError(f"cannot take {num_blocks} blocks, {self.num_free_blocks} are free")
""",
        """        num_blocks = min(num_blocks, self.num_free_blocks)
""",
    ),
    (
        "        return self.popleft_n(1)[0]",
        """        if not self.num_free_blocks:
            raise ValueError("nothing is free")
        return self.popleft_n(1)[0]""",
    ),
]
