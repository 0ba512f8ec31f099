STORY = (
    "Hits are shared, so somebody takes them for free, all of them. One that nobody holds leaves the free "
    "queue too, and the blocks run out in the middle of the allocation."
)
CONCEPT = "A hit that no request holds costs a free block; a hit that a request holds costs nothing."
EDITS = [
    (
        """        if computed_blocks:
            num_needed += sum(block.ref_cnt == 0 for block in computed_blocks)
""",
        "",
    ),
]
