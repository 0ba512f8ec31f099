STORY = (
    "The test compares the number of free blocks with the list of free blocks. A block that is in neither is "
    "nobody's, and nobody misses it."
)
CONCEPT = "Count all blocks after every step: one that is lost, or is in two places, shows up at once."
EDITS = [
    (
        "sorted([*free, *held]) == list(range(1, kv.num_usable_blocks + 1))",
        "len(set(free)) == len(free)",
    ),
    (
        """        assert block.ref_cnt == held[block.block_id], f"I2: the holders of block {block.block_id}"
""",
        """        assert block.ref_cnt >= held[block.block_id], f"I2: the holders of block {block.block_id}"
""",
    ),
]
