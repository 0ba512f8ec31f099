STORY = (
    "A learner heard that block 0 is the null block and treats it as 'no block yet'. All tokens there get slot "
    "-1 and are never stored."
)
CONCEPT = "Block 0 is a block like any other: its first slot is 0."
EDITS = [
    (
        "    return block_ids * block_size + positions % block_size",
        "    return np.where(block_ids == 0, -1, block_ids * block_size + positions % block_size)",
    ),
]
