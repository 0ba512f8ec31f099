STORY = (
    "Whether hits are free is asked of the first only. Of two tables of equal content one may have its head "
    "held and its tail free."
)
CONCEPT = "A hit that no request holds costs a free block; a hit that a request holds costs nothing."
EDITS = [
    (
        "sum(block.ref_cnt == 0 for block in computed_blocks)",
        "len(computed_blocks) * (computed_blocks[0].ref_cnt == 0)",
    ),
]
