STORY = (
    "Every hit is counted as if it lay in the free queue. When many share a prompt that fills half of the "
    "cache, nobody else is admitted."
)
CONCEPT = "A hit that no request holds costs a free block; a hit that a request holds costs nothing."
EDITS = [
    (
        """        if computed_blocks:
            num_needed += sum(block.ref_cnt == 0 for block in computed_blocks)
""",
        """        num_needed += len(computed_blocks)
""",
    ),
]
