STORY = (
    "Whether the hits are free is asked of the last one only. When the head of the prefix is held and its end "
    "is not, the held blocks are paid for as well."
)
CONCEPT = "A hit that no request holds costs a free block; a hit that a request holds costs nothing."
EDITS = [
    (
        """        if computed_blocks:
            num_needed += sum(block.ref_cnt == 0 for block in computed_blocks)
""",
        """        if computed_blocks and computed_blocks[-1].ref_cnt == 0:
            num_needed += len(computed_blocks)
""",
    ),
]
