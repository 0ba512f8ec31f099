STORY = (
    "Brackets around the condition and its message make a pair, and a pair is always true. Three asserts of "
    "the law of conservation never fail."
)
CONCEPT = "Count all blocks after every step: one that is lost, or is in two places, shows up at once."
EDITS = [
    (
        "assert sorted([*free, *held]) ==",
        "assert (sorted([*free, *held]) ==",
    ),
    (
        '"I2: each block is in one place"',
        '"I2: each block is in one place")',
    ),
    (
        'assert kv.num_free_blocks == len(free), "I2: the number of free blocks"',
        'assert (kv.num_free_blocks == len(free), "I2: the number of free blocks")',
    ),
    (
        """        assert block.ref_cnt == held[block.block_id], f"I2: the holders of block {block.block_id}"
""",
        """        assert (block.ref_cnt == held[block.block_id], f"I2: the holders of block {block.block_id}")
""",
    ),
]
